package unwindtable

import (
	"github.com/headwater/headwater/ebpf/object/elffile"
	"github.com/headwater/headwater/ebpf/unwind"
)

// minPageFrames is the minimum average number of bytes of call frame information per page. They
// become about as many bytes of rows, and a page takes 8 more bytes in its directory, whether it is
// resident or not.
const minPageFrames = 64

// PageShift returns log2 of the bytes of text that one page of rows of f should cover. Small pages
// are fast to search and hold few rows that no walk needs. But a browser of 200 MB, whose text has
// almost no call frame information, would have a directory larger than all its rows.
func PageShift(f *elffile.File) uint8 {
	var text, frames uint64
	for _, s := range f.TextSegments() {
		text += s.Memsz
	}
	if f.IsGo() {
		frames = text / goTextForFrames
	} else if s, err := f.OpenEHFrame(); err == nil {
		frames = s.Size
	} else if s, err := f.OpenDebugFrame(); err == nil {
		frames = s.Size
	}
	shift := uint8(unwind.MinPageShift)
	for shift < unwind.MaxPageShift && text>>shift > frames/minPageFrames {
		shift++
	}
	return shift
}

// goTextForFrames is the number of bytes of text of a Go program per byte of rows. The rows come
// from its function table.
const goTextForFrames = 8
