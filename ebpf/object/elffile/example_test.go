package elffile_test

import (
	"fmt"
	"os"

	"github.com/headwater/headwater/ebpf/object/elffile"
)

// Open reads the headers of an executable. Reads of its sections are bounded, because the file is
// not trusted.
func ExampleOpen() {
	path, err := os.Executable()
	if err != nil {
		panic(err)
	}
	f, err := elffile.Open(path)
	if err != nil {
		panic(err)
	}
	defer f.Close()
	fmt.Println(f.Class(), "made by Go:", f.IsGo())
	for _, text := range f.TextSegments() {
		inside := f.Entry() >= text.Vaddr && f.Entry() < text.Vaddr+text.Memsz
		fmt.Println("the program starts in this segment:", inside)
	}
	// Output:
	// ELFCLASS64 made by Go: true
	// the program starts in this segment: true
}
