// Package reference unwinds copies of stacks according to the standards. The profiler's own stacks are compared with
// the result. It is slow, direct and complete: it supports every register, rule and expression of DWARF 5, 6.4, and of
// the Linux Standard Base, "Exception Frames".
//
// A reference must not share code with the unwinder that it checks. So this package imports only the standard library
// and system calls: it has its own perf events for the mappings of processes, opens the files itself, reads ELF with
// debug/elf, and has its own reader and interpreter of call frame information. Without call frame information it stops
// and reports why: it does not use frame pointers, and does not guess.
package reference
