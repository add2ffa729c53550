package procfs

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/headwater/headwater/ebpf/host/procfs/helper"
	"github.com/headwater/headwater/integration/testkit"
	"github.com/headwater/headwater/integration/testkit/fuse"
	"github.com/headwater/headwater/integration/testkit/need"
)

// TestForeign reads a file of a FUSE file system: this process has none of the file system's files open. Then the file
// system hangs, and other files are read.
func TestForeign(t *testing.T) {
	need.Root(t)
	content := bytes.Repeat([]byte("0123456789abcdef"), 3*maxRead/16)
	content = append(content, "end"...)
	dir := t.TempDir()
	server := fuse.Mount(t, dir, map[string][]byte{"file": content, "other": []byte("x")})
	server.DropCache(t)
	if !fuseMounted() {
		t.Error("the mount is not seen")
	}
	f, err := Open("", filepath.Join(server.Dir, "file"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, local := f.(*os.File); local {
		t.Error("it is local")
	}
	got, err := io.ReadAll(io.NewSectionReader(f, 0, int64(2*len(content))))
	if err != nil || !bytes.Equal(got, content) {
		t.Errorf("%d bytes, want %d: %v", len(got), len(content), err)
	}
	info, err := f.Stat()
	if err != nil || info.Size() != int64(len(content)) || !info.Mode().IsRegular() || info.Name() != "file" {
		t.Errorf("%+v, %v", info, err)
	}
	if _, err := OpenOwned(server.Dir, "/file", 1); err != nil {
		t.Errorf("of root: %v", err)
	}
	if _, err := Open(server.Dir, "/none"); !Gone(err) {
		t.Errorf("a file that is not there: %v", err)
	}
	var refused *RefusedError
	if _, err := Open(filepath.Dir(server.Dir), "/fuse"); !errors.Is(err, ErrNotRegular) || !errors.As(err, &refused) ||
		refused.Stat.Mode&unix.S_IFMT != unix.S_IFDIR {
		t.Errorf("a folder: %v", err)
	}
	if found := openBelowFolder(t, server.Dir); len(found) > 0 {
		t.Errorf("this process has open %v", found)
	}

	server.Hang(t)
	done := make(chan error, 2)
	go func() {
		_, err := f.ReadAt(make([]byte, 1), 0) // OpenOwned has dropped the cached pages
		done <- err
	}()
	go func() {
		_, err := Open("", filepath.Join(server.Dir, "other"))
		done <- err
	}()
	for range 3 {
		local, err := Open("/", "/proc/version")
		if !errors.Is(err, ErrNotRegular) {
			t.Errorf("%v, %v", local, err)
		}
		value := uint64(4711)
		b := make([]byte, 8)
		if _, err := Default.Memory(uint32(os.Getpid())).ReadAt(b, int64(uintptr(unsafe.Pointer(&value)))); err != nil ||
			*(*uint64)(unsafe.Pointer(&b[0])) != value {
			t.Errorf("memory: %x, %v", b, err)
		}
	}
	select {
	case err := <-done:
		t.Fatalf("it does not hang: %v", err)
	case <-time.After(100 * time.Millisecond):
	}
	server.Answer(t)
	for range 2 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

// openBelowFolder returns the files below a folder that this process has open.
func openBelowFolder(t *testing.T, dir string) (found []string) {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if to, err := os.Readlink("/proc/self/fd/" + e.Name()); err == nil && strings.HasPrefix(to, dir+"/") {
			found = append(found, to)
		}
	}
	return found
}

// TestHelperEnds: after the helper was killed, another helper is started, and pending calls get their result.
func TestHelperEnds(t *testing.T) {
	value := uint64(4711)
	read := func() {
		t.Helper()
		b := make([]byte, 8)
		addrs := []uint64{uint64(uintptr(unsafe.Pointer(&value)))}
		_, err := Default.Memory(uint32(os.Getpid())).askFor(addrs, 8, b)
		if err != nil && !errors.Is(err, helper.ErrNone) || err == nil && *(*uint64)(unsafe.Pointer(&b[0])) != value {
			t.Errorf("%x, %v", b, err)
		}
	}
	read()
	first := helper.PID()
	if first == 0 {
		t.Fatal("there is no helper")
	}
	if err := syscall.Kill(first, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "another helper", func() bool {
		read()
		return helper.PID() != 0 && helper.PID() != first
	})
}

// TestMemoryThatIsNone: memory that cannot be read gives no bytes, both at the start and after a piece that can be
// read.
func TestMemoryThatIsNone(t *testing.T) {
	own := Default.Memory(uint32(os.Getpid()))
	if n, err := own.ReadAt(make([]byte, 8), 8); n != 0 || !errors.Is(err, unix.EFAULT) {
		t.Errorf("%d, %v", n, err)
	}
	memory, err := unix.Mmap(-1, 0, 2*maxMemory, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(memory)
	first := maxMemory &^ (os.Getpagesize() - 1)
	if err := unix.Mprotect(memory[first+os.Getpagesize():], unix.PROT_NONE); err != nil {
		t.Fatal(err)
	}
	start := uint64(uintptr(unsafe.Pointer(&memory[0])))
	b := make([]byte, 2*maxMemory)
	if n, err := own.ReadAt(b, int64(start)); n != first+os.Getpagesize() || err != io.ErrUnexpectedEOF {
		t.Errorf("%d of %d bytes, %v", n, len(b), err)
	}
	for _, addrs := range [][]uint64{{8}, {start, 8, start}} {
		if n, err := own.ReadEach(addrs, 8, b); n != len(addrs)/2 || err != nil {
			t.Errorf("%x: %d, %v", addrs, n, err)
		}
	}
}

// TestResident: pages that were never touched, and addresses without a page, are not in memory.
func TestResident(t *testing.T) {
	page := os.Getpagesize()
	memory, err := unix.Mmap(-1, 0, 4*page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(memory)
	if err := unix.Madvise(memory, unix.MADV_NOHUGEPAGE); err != nil && err != unix.EINVAL {
		t.Fatal(err)
	}
	start := uint64(uintptr(unsafe.Pointer(&memory[0])))
	at := func(page int, offset uint64) uint64 { return start + uint64(page*os.Getpagesize()) + offset }
	memory[0], memory[page], memory[3*page] = 1, 1, 1
	for _, test := range []struct {
		addrs []uint64
		size  int
		want  bool
	}{
		{[]uint64{at(0, 0)}, 1, true},
		{[]uint64{at(0, 0)}, 2 * page, true},
		{[]uint64{at(0, 0)}, 2*page + 1, false},
		{[]uint64{at(1, uint64(page)-8), at(3, 0), at(0, 8)}, 8, true},
		{[]uint64{at(3, 0), at(1, uint64(page)-7)}, 8, false},
		{[]uint64{at(2, 0)}, 8, false},
		{[]uint64{8}, 8, false},
		{[]uint64{1<<64 - 8}, 8, false},
		{[]uint64{1<<64 - 8}, 64, false},
	} {
		if got := Default.Memory(uint32(os.Getpid())).resident(test.addrs, test.size); got != test.want {
			t.Errorf("%d bytes at %x of %x: %v", test.size, test.addrs, start, got)
		}
	}
}

func BenchmarkMemory(b *testing.B) {
	value := [64]byte{1}
	at := int64(uintptr(unsafe.Pointer(&value[0])))
	buf := make([]byte, len(value))
	b.Run("helper", func(b *testing.B) {
		for b.Loop() {
			if _, err := Default.Memory(uint32(os.Getpid())).askFor([]uint64{uint64(at)}, len(buf), buf); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("resident", func(b *testing.B) {
		for b.Loop() {
			if !Default.Memory(uint32(os.Getpid())).resident([]uint64{uint64(at)}, len(buf)) {
				b.Fatal("a page that is in use is not present")
			}
		}
	})
	b.Run("here", func(b *testing.B) {
		for b.Loop() {
			remote := []unix.RemoteIovec{{Base: uintptr(at), Len: len(buf)}}
			if _, err := readMemory(uint32(os.Getpid()), buf, remote); err != nil {
				b.Fatal(err)
			}
		}
	})
}
