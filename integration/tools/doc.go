// Package tools tests headwater top in a terminal, and the commands that make one recording, with the programs that
// their files are for.
package tools
