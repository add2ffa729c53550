package unwindtable

import (
	"os"
	"testing"

	"github.com/headwater/headwater/ebpf/object/elffile"
	"github.com/headwater/headwater/ebpf/unwind"
	"github.com/headwater/headwater/ebpf/unwind/ehframe/ehtest"
)

// TestPageShift: text with much call frame information has small pages, text with almost none has
// large pages.
func TestPageShift(t *testing.T) {
	for path, want := range map[string]uint8{
		ehtest.Files(t)[0]:           unwind.MinPageShift,
		"/proc/self/exe":             unwind.MinPageShift, // a Go program
		"/usr/lib/chromium/chromium": unwind.MaxPageShift,
	} {
		f, err := elffile.Open(path)
		if os.IsNotExist(err) {
			t.Logf("%s is not installed", path)
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if got := PageShift(f); got != want {
			t.Errorf("%s: pages of 2^%d bytes, want 2^%d", path, got, want)
		}
	}
}
