// Package tools tests headwater top in a terminal, and the commands that make one recording, together with the programs
// that read their files.
package tools
