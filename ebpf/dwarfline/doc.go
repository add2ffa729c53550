// Package dwarfline reports for an ELF virtual address what DWARF 2 to 5 says of
// it: function, source file and line, and the callers it was inlined into, the
// same as addr2line -i -f.
//
// Only what an address needs is read. The headers and root entries of all units
// are looked at once, for an index of the addresses that each covers; a unit's entries are
// walked once when it is first hit, and only where its functions lie is kept.
// The inlined calls are read again for each address from the entries of its
// function alone, and the line by running the one sequence of the line program
// that covers it: a sequence starts from a known state wherever it stands.
//
// The tests compare with addr2line, elfutils and LLVM. Package debug/dwarf cannot
// carry this: dwarf.New parses the abbreviations of every unit and keeps them, an
// Entry costs an allocation for each attribute, so that walking one unit of a C++
// program takes longer than all units of a lookup here, its LineReader allocates
// what a count in the file says, and it knows neither supplementary
// files nor split units nor their packages.
//
// Section and attribute numbers are those of the DWARF 5 standard, chapter 7;
// what precedes version 5 and begins with GNU is described in the GCC wiki's
// "Debug Fission" and in dwz's manual.
package dwarfline
