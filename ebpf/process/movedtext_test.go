package process

import (
	"debug/elf"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/headwater/headwater/ebpf/common/clock"
	"github.com/headwater/headwater/ebpf/host/filework"
	"github.com/headwater/headwater/ebpf/host/procfs"
	"github.com/headwater/headwater/ebpf/unwind"
	"github.com/headwater/headwater/integration/testkit/need"
)

// TestFindMovedText lays this program out in its own memory once more, with the bytes of its text in anonymous memory,
// and changes some bytes.
func TestFindMovedText(t *testing.T) {
	need.Root(t)
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	file, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var text, data *elf.Prog // the segment after the text
	for _, p := range file.Progs {
		switch {
		case p.Type != elf.PT_LOAD:
		case text == nil && p.Flags&elf.PF_X != 0:
			text = p
		case text != nil && data == nil:
			data = p
		}
	}
	page := uint64(os.Getpagesize())
	up := func(n uint64) uint64 { return (n + page - 1) &^ (page - 1) }
	low, high := text.Vaddr&^(page-1), up(data.Vaddr+data.Filesz)
	const all = unix.PROT_READ | unix.PROT_WRITE | unix.PROT_EXEC
	at, err := unix.MmapPtr(-1, 0, nil, uintptr(high-low), unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.MunmapPtr(at, uintptr(high-low))
	base := uint64(uintptr(at))
	place := func(vaddr, size uint64, fd int, offset int64, prot int) {
		flags := unix.MAP_PRIVATE | unix.MAP_FIXED
		if fd < 0 {
			flags |= unix.MAP_ANONYMOUS
		}
		where := unsafe.Add(at, int(vaddr-low))
		if _, err := unix.MmapPtr(fd, offset, where, uintptr(size), prot, flags); err != nil {
			t.Fatal(err)
		}
	}
	size := up(text.Vaddr+text.Filesz) - low
	place(low, size, -1, 0, all)
	own, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer own.Close()
	memory := unsafe.Slice((*byte)(at), int(size))
	if _, err := own.ReadAt(memory[text.Vaddr-low:][:text.Filesz], int64(text.Off)); err != nil {
		t.Fatal(err)
	}
	from := data.Vaddr &^ (page - 1)
	place(from, high-from, int(own.Fd()), int64(data.Off&^(page-1)), unix.PROT_READ)

	pool := &filework.Pool{}
	tracker := NewTracker(newMemoryStore(), procfs.Default, pool, nil)
	defer tracker.Close()
	pid := uint32(os.Getpid())
	const vaddrOff = 0x1000
	check := func(what string, want unwind.Outcome, isText bool) {
		t.Helper()
		tracker.ScanProcess(pid)
		view := tracker.At(pid, clock.Monotonic())
		exe, vaddr := view.Locate(base + vaddrOff)
		if got := view.Mapped(base + vaddrOff); got != want {
			t.Errorf("%s: %v, want %v", what, got, want)
		}
		if e := tracker.Executable(exe); isText != (e != nil && e.Path == path && vaddr == low+vaddrOff) {
			t.Errorf("%s: %v, 0x%x", what, e, vaddr)
		}
	}
	check("moved", unwind.Unset, true)
	memory[vaddrOff] ^= 0xff // a breakpoint
	check("patched", unwind.Unset, true)
	for i := range memory[size/2:][:movedStep+movedChunk] {
		memory[size/2+uint64(i)] ^= 0xff
	}
	check("other code in the middle", unwind.NoMapping, false)
	for i := range memory[size/2:][:movedStep+movedChunk] {
		memory[size/2+uint64(i)] ^= 0xff
	}
	check("copied", unwind.Unset, true)
	clear(memory)
	for range maxDoubts - 2 {
		check("not there yet", unwind.NoMapping, false)
	}
	check("never there", unwind.Unset, false)
}

// TestMapsAreReadOnce: a scan reads the mappings of a process once, also with executable memory that may be moved text.
func TestMapsAreReadOnce(t *testing.T) {
	root := t.TempDir()
	if err := os.Mkdir(filepath.Join(root, "7"), 0o755); err != nil {
		t.Fatal(err)
	}
	path, next := filepath.Join(root, "7", "maps"), filepath.Join(root, "next")
	for _, pipe := range []string{path, next} {
		if err := unix.Mkfifo(pipe, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const maps = "1000-2000 r--p 00000000 08:01 12 /bin/none\n2000-3000 r-xp 00000000 00:00 0\n"
	var opened [2]atomic.Bool
	var writing sync.WaitGroup
	write := func(n int, pipe string) {
		file, err := os.OpenFile(pipe, os.O_WRONLY, 0) // waits for a reader
		if err != nil {
			return
		}
		defer file.Close()
		opened[n].Store(true)
		if n == 0 {
			os.Rename(next, path)
			file.WriteString(maps)
		}
	}
	writing.Go(func() { write(0, path) })
	writing.Go(func() { write(1, next) })
	pool := &filework.Pool{}
	tracker := NewTracker(newMemoryStore(), procfs.FS{Root: root}, pool, nil)
	defer tracker.Close()
	tracker.SetOpenPatience(2 * time.Minute)
	tracker.ScanProcess(7)
	if !opened[0].Load() || opened[1].Load() {
		t.Errorf("reads: %v, %v", opened[0].Load(), opened[1].Load())
	}
	view := tracker.At(7, clock.Monotonic())
	if got := view.Mapped(0x2000); got != unwind.Unset {
		t.Errorf("the mapping is not known: %v", got)
	}
	last, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer last.Close()
	writing.Wait()
}

// TestMemoryNextToNoELF has executable memory next to a file that is mapped executable, and is no ELF file.
func TestMemoryNextToNoELF(t *testing.T) {
	need.Root(t)
	file, err := os.Create(filepath.Join(t.TempDir(), "code"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	page := os.Getpagesize()
	if err := file.Truncate(int64(page)); err != nil {
		t.Fatal(err)
	}
	const prot = unix.PROT_READ | unix.PROT_EXEC
	at, err := unix.MmapPtr(-1, 0, nil, uintptr(3*page), prot|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.MunmapPtr(at, uintptr(3*page))
	const flags = unix.MAP_PRIVATE | unix.MAP_FIXED
	if _, err := unix.MmapPtr(int(file.Fd()), 0, unsafe.Add(at, page), uintptr(page), prot, flags); err != nil {
		t.Fatal(err)
	}
	tracker := NewTracker(newMemoryStore(), procfs.Default, &filework.Pool{}, nil)
	defer tracker.Close()
	pid := uint32(os.Getpid())
	tracker.ScanProcess(pid)
	view := tracker.At(pid, clock.Monotonic())
	if got := view.Mapped(uint64(uintptr(at))); got != unwind.Unset {
		t.Errorf("memory below the file: %v", got)
	}
}
