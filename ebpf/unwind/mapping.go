package unwind

// Mapping is an executable mapping of a process as the unwinder needs it, see
// struct mapping in bpf/abi.h.
type Mapping struct {
	Start, End uint64 // addresses in the process
	Bias       uint64 // address - Bias = ELF virtual address
	Exe        ExeID
	Directory  Directory
}

// Directory is where the unwinder finds the pages of rows of an executable. The
// zero value has no pages: frame pointers are all there is.
type Directory struct {
	Word  uint32 // index in table memory of the entry of page First
	First uint32 // number of the first page, an ELF virtual address >> Shift
	Pages uint32
	Shift uint8 // log2 of the bytes of text that a page is about
}

// Holds reports whether the directory has an entry for a page.
func (d Directory) Holds(page uint64) bool {
	return page >= uint64(d.First) && page-uint64(d.First) < uint64(d.Pages)
}

// Page returns the number of the page that is about the ELF virtual address vaddr.
func (d Directory) Page(vaddr uint64) uint64 { return vaddr >> d.Shift }

// Process is what the unwinder needs to know of a process.
type Process struct {
	Mappings   []Mapping // sorted by start, not overlapping
	Generation uint32    // samples that are unwound by these mappings carry it
	Ignore     bool      // take no samples
	MakesCode  bool      // while it runs: rows may be old, so walks that fail are repeated
	// Interpreter is the number in the kernel of the one that runs it, 0: none, and Bias the
	// load bias of its file.
	Interpreter uint16
	Bias        uint64
	Restless    bool   // files come to the places of others: stacks are copied
	Exec        uint32 // the kernel's number of the program that it runs; 0: that of its next sample
}

// Program is the file of a program, as the kernel distinguishes files, and where its code begins
// in the address space less the load bias, as the kernel notes it of a process.
type Program struct {
	Major, Minor uint32
	Inode        uint64
	StartCode    uint64
}
