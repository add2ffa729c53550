// Package tools tests the commands that make one recording, with the programs that their files
// are for.
package tools
