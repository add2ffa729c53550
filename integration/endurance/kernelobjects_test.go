package endurance

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/headwater/headwater/integration/testkit/rig"
)

// The resources that a process holds in the kernel, and all BPF objects.

// resources is what a running profiler holds at one instant.
type resources struct {
	goroutines  int
	executables int // open files that have a name: the executables of the host
	files       int // other open file descriptors, BPF maps and programs among them
	maps        int // file descriptors of BPF maps
	programs    int // file descriptors of BPF programs
	rss         int // KiB
}

func (r resources) String() string {
	return fmt.Sprintf("%d goroutines, %d executables, %d other files (%d maps, %d programs), %d MiB",
		r.goroutines, r.executables, r.files, r.maps, r.programs, r.rss/1024)
}

// measure reads what a profiler holds now.
func measure(t testing.TB, h *rig.Headwater) resources {
	t.Helper()
	r := resources{rss: rss(t, h)}
	links, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", h.PID()))
	if err != nil {
		t.Fatal(err)
	}
	for _, link := range links {
		target, err := os.Readlink(link)
		if err != nil {
			continue // closed in the meantime
		}
		if strings.HasPrefix(target, "/") {
			r.executables++
			continue
		}
		r.files++
		switch target {
		case "anon_inode:bpf-map":
			r.maps++
		case "anon_inode:bpf-prog":
			r.programs++
		}
	}
	_, text := h.Get(t, "/debug/pprof/goroutine?debug=1")
	if _, err := fmt.Sscanf(text, "goroutine profile: total %d", &r.goroutines); err != nil {
		t.Fatalf("goroutines: %v in %.80q", err, text)
	}
	return r
}

// bpfKind is a command of bpf(2) that walks the IDs of one kind of object.
type bpfKind int

const (
	bpfPrograms bpfKind = unix.BPF_PROG_GET_NEXT_ID
	bpfMaps     bpfKind = unix.BPF_MAP_GET_NEXT_ID
)

// bpfIDs returns the IDs of all BPF objects of a kind in the kernel.
func bpfIDs(t testing.TB, kind bpfKind) map[uint32]bool {
	t.Helper()
	ids := map[uint32]bool{}
	for id := uint32(0); ; {
		attr := struct{ start, next, flags uint32 }{start: id} // union bpf_attr of BPF_*_GET_NEXT_ID
		_, _, errno := unix.Syscall(unix.SYS_BPF, uintptr(kind), uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr))
		if errors.Is(errno, unix.ENOENT) {
			return ids
		}
		if errno != 0 {
			t.Fatalf("bpf(%d): %v", kind, errno)
		}
		id = attr.next
		ids[id] = true
	}
}

// bpfObjects are the IDs of BPF objects that a process has had open: objects of other profilers on the host come and
// go.
type bpfObjects struct{ programs, maps map[uint32]bool }

// add adds the objects that headwater currently has open.
func (o bpfObjects) add(t testing.TB, h *rig.Headwater) {
	t.Helper()
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/fdinfo/*", h.PID()))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // closed in the meantime
		}
		for line := range strings.Lines(string(text)) {
			var id uint32
			if _, err := fmt.Sscanf(line, "prog_id: %d", &id); err == nil {
				o.programs[id] = true
			}
			if _, err := fmt.Sscanf(line, "map_id: %d", &id); err == nil {
				o.maps[id] = true
			}
		}
	}
}

// alive returns how many of the objects are still in the kernel.
func (o bpfObjects) alive(t testing.TB) (programs, maps int) {
	t.Helper()
	count := func(all map[uint32]bool, kind bpfKind) (n int) {
		for id := range bpfIDs(t, kind) {
			if all[id] {
				n++
			}
		}
		return n
	}
	return count(o.programs, bpfPrograms), count(o.maps, bpfMaps)
}
