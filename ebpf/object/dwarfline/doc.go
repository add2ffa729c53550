// Package dwarfline looks up an ELF virtual address in DWARF 2 to 5 data: function, source file and
// line, and the callers into which the function was inlined, the same as addr2line -i -f.
//
// It reads only the data that an address needs. The headers and root entries of all units are read
// once, for an index of their addresses. The entries of a unit are read once, at the first lookup
// in it, and only the addresses of its functions are kept. For each address, the inlined calls are
// read again from the entries of its function only, and the line comes from the one sequence of the
// line program that covers the address: every sequence starts from a known state.
//
// The tests compare the results with addr2line, elfutils and LLVM. Package debug/dwarf is not
// sufficient. dwarf.New parses the abbreviations of every unit and keeps them. An Entry costs an
// allocation for each attribute, so reading one unit of a C++ program takes longer than a whole
// lookup here. LineReader allocates as much memory as a count in the file says. Supplementary
// files, split units and their packages are not supported.
//
// Section and attribute numbers are from the DWARF 5 standard, chapter 7. The GNU extensions that
// preceded version 5 are described in the GCC wiki's "Debug Fission" and in dwz's manual.
package dwarfline
