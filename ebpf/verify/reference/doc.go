// Package reference unwinds copies of stacks by what the standards say, for the
// profiler's own stacks to be compared with. It is slow, direct and complete: every
// register, every rule, every expression of DWARF 5, 6.4, and of the Linux Standard
// Base, "Exception Frames".
//
// A judge must not share what it judges. So this package imports the standard
// library and system calls, and nothing of the profiler: it has its own perf events to
// know what processes map, opens the files itself, reads ELF by debug/elf, and has its
// own reader and interpreter of call frame information. Where there is none, it stops
// and says why: it knows nothing of frame pointers and makes no guesses.
package reference
