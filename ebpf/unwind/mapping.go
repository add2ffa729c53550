package unwind

// Mapping is an executable mapping of a process in the form that the unwinder needs, see struct
// mapping in bpf/abi/rows.h.
type Mapping struct {
	Start, End uint64 // addresses in the process
	Bias       uint64 // address - Bias = ELF virtual address
	Exe        ExeID
	Directory  Directory
}

// Directory locates the pages of rows of an executable. The zero value has no pages, and the
// unwinder uses only frame pointers.
type Directory struct {
	Word  uint32 // index in table memory of the entry for page First
	First uint32 // number of the first page, an ELF virtual address >> Shift
	Pages uint32
	Shift uint8 // log2 of the bytes of text that a page covers
}

// Holds reports whether the directory has an entry for a page.
func (d Directory) Holds(page uint64) bool {
	return page >= uint64(d.First) && page-uint64(d.First) < uint64(d.Pages)
}

// Page returns the number of the page that covers the ELF virtual address vaddr.
func (d Directory) Page(vaddr uint64) uint64 { return vaddr >> d.Shift }

// Process is the unwinder's description of a process.
type Process struct {
	Mappings   []Mapping // sorted by start, not overlapping
	Generation uint32    // recorded in samples that are unwound with these mappings
	Ignore     bool      // take no samples
	MakesCode  bool      // makes code at run time, so rows may be outdated; failed walks are repeated
	// Interpreter is the kernel's number of the process's interpreter, 0 if none, and Bias the load
	// bias of the interpreter's file.
	Interpreter uint16
	Bias        uint64
	Restless    bool   // other files replace mapped files at the same addresses, so stacks are copied
	Exec        uint32 // kernel's number of the current program; if 0, the number in the next sample
}

// Program identifies the file of a program, in the way the kernel identifies files. StartCode is
// the kernel's start address of the program's code minus the load bias.
type Program struct {
	Major, Minor uint32
	Inode        uint64
	StartCode    uint64
}
