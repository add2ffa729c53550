package process

import (
	"os/exec"
	"testing"
	"time"

	"github.com/headwater/headwater/ebpf/elffile"
)

// TestPrefetch: the pages of an executable of middle size are built though nobody
// asks for them, as long as some process has it mapped.
func TestPrefetch(t *testing.T) {
	path, err := exec.LookPath("go")
	if err != nil {
		t.Fatal(err)
	}
	f, err := elffile.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	store := newMemoryStore()
	e := &Executable{Path: path, elf: f}
	if err := e.load(store); err != nil {
		t.Fatal(err)
	}
	if e.directory.Pages <= smallPages || e.directory.Pages > middlePages {
		t.Fatalf("%s has %d pages, want %d to %d", path, e.directory.Pages, smallPages+1, middlePages)
	}
	resident := func() (n uint32) {
		for _, page := range pagesOf(e.directory) {
			if store.Resident(e.directory, page) {
				n++
			}
		}
		return n
	}
	mapped := make(chan bool)
	filler := newFiller(store, func(err error) {
		if err != nil {
			t.Error(err)
		}
	}, func(*Executable) bool { return <-mapped })
	filler.whole(e)
	for range 3 {
		mapped <- true
	}
	mapped <- false
	filler.close()
	if n := resident(); n != 3 {
		t.Errorf("%d pages are resident when the executable is mapped for as long as three take", n)
	}
	filler = newFiller(store, func(error) {}, func(*Executable) bool { return true })
	defer filler.close()
	filler.whole(e)
	for end := time.Now().Add(2 * time.Minute); resident() < e.directory.Pages; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d of %d pages are resident", resident(), e.directory.Pages)
		}
	}
}
