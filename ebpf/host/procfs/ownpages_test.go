package procfs

import (
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestReleasePages: the executable's pages leave the resident memory, and code and constants are available again when
// they are needed.
func TestReleasePages(t *testing.T) {
	own, err := OwnPages()
	require.NoError(t, err)
	text := uint64(reflect.ValueOf(TestReleasePages).Pointer())
	require.True(t, slices.ContainsFunc(own, func(m Mapping) bool { return m.Contains(text) }), own)

	before := resident(t, own)
	require.Greater(t, before, 512)
	require.NoError(t, ReleasePages(own))
	require.Less(t, resident(t, own), before*3/4)
}

// resident returns how many KiB of mappings are in memory, by /proc/self/smaps.
func resident(t *testing.T, mappings []Mapping) int {
	t.Helper()
	smaps, err := os.ReadFile("/proc/self/smaps")
	require.NoError(t, err)
	total, counts := 0, false
	for line := range strings.Lines(string(smaps)) {
		var start, end uint64
		var kib int
		if n, _ := fmt.Sscanf(line, "%x-%x ", &start, &end); n == 2 {
			counts = slices.ContainsFunc(mappings,
				func(m Mapping) bool { return m.Start == start && m.End == end })
		} else if n, _ := fmt.Sscanf(line, "Rss: %d kB", &kib); n == 1 && counts {
			total += kib
		}
	}
	return total
}

// TestOwnPagesAreOfTheFile: memory that was written to before it became read-only would lose its content, for example
// the relocations that the loader writes in a position-independent executable.
func TestOwnPagesAreOfTheFile(t *testing.T) {
	exe, err := os.Open("/proc/self/exe")
	require.NoError(t, err)
	defer exe.Close()
	mapped := func(write bool) uint64 {
		memory, err := unix.Mmap(int(exe.Fd()), 0, 3*os.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, unix.Munmap(memory)) })
		if write {
			memory[os.Getpagesize()] = 1
		}
		require.NoError(t, unix.Mprotect(memory, unix.PROT_READ))
		return uint64(uintptr(unsafe.Pointer(&memory[0])))
	}
	untouched, written := mapped(false), mapped(true)
	own, err := OwnPages()
	require.NoError(t, err)
	contains := func(addr uint64) bool {
		return slices.ContainsFunc(own, func(m Mapping) bool { return m.Contains(addr) })
	}
	require.True(t, contains(untouched))
	require.False(t, contains(written))
}
