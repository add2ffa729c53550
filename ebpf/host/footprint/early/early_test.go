package early

import (
	"encoding/binary"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/headwater/headwater/ebpf/host/procfs"
)

// TestMapUsed checks that, for a file with all pages in the page cache, only touched pages are mapped, and not the
// pages around them. On kernels without support the behaviour does not change.
func TestMapUsed(t *testing.T) {
	const pages, each = 256, 16
	page := os.Getpagesize()
	path := t.TempDir() + "/file"
	require.NoError(t, os.WriteFile(path, make([]byte, pages*page), 0o600))
	file, err := os.Open(path)
	require.NoError(t, err)
	defer file.Close()
	memory, err := unix.Mmap(int(file.Fd()), 0, pages*page, unix.PROT_READ, unix.MAP_PRIVATE)
	require.NoError(t, err)
	defer unix.Munmap(memory)
	touch := func() (mapped int) {
		require.NoError(t, unix.Madvise(memory, unix.MADV_DONTNEED))
		for i := 0; i < pages; i += each {
			require.Zero(t, memory[i*page])
		}
		return mappedPages(t, memory)
	}
	around := touch()
	require.Greater(t, around, pages/each)
	require.Error(t, mapUsed(nil))

	start := uint64(uintptr(unsafe.Pointer(&memory[0])))
	err = mapUsed([]segment{{start, start + uint64(len(memory))}})
	if isOld(t) {
		require.Equal(t, err == nil, touch() < around, err)
		return
	}
	require.NoError(t, err)
	require.Equal(t, pages/each, touch())
}

// TestReadOnlySegments checks that the segments are mappings of the executable in /proc, and contain code and
// constants. Constants of a position-independent executable that are written to at load time are not in them.
func TestReadOnlySegments(t *testing.T) {
	exe, err := os.Executable()
	require.NoError(t, err)
	mappings, err := procfs.Default.SelfMappings()
	require.NoError(t, err)
	var readOnly []segment
	for _, m := range mappings {
		if m.Path == exe && m.Perms&procfs.Write == 0 {
			readOnly = append(readOnly, segment{m.Start, m.End})
		}
	}
	found := readOnlySegments()
	require.Subset(t, readOnly, found)
	constant := "a constant"
	for _, addr := range []uintptr{
		reflect.ValueOf(TestReadOnlySegments).Pointer(), uintptr(unsafe.Pointer(unsafe.StringData(constant))),
	} {
		require.True(t, slices.ContainsFunc(found, func(s segment) bool {
			return s.start <= uint64(addr) && uint64(addr) < s.end
		}), "%x in %x", addr, found)
	}
}

// TestInit checks that mapUsed was called before the program runs. The kernel marks such mappings with "uw".
func TestInit(t *testing.T) {
	code := uint64(reflect.ValueOf(TestInit).Pointer())
	smaps, err := os.ReadFile("/proc/self/smaps")
	require.NoError(t, err)
	var start, end uint64
	for line := range strings.Lines(string(smaps)) {
		if strings.HasPrefix(line, "VmFlags:") && start <= code && code < end {
			require.Equal(t, Err == nil, strings.Contains(line, " uw"), line)
			require.True(t, Err == nil || isOld(t), Err)
			return
		}
		_, _ = fmt.Sscanf(line, "%x-%x ", &start, &end)
	}
	require.Fail(t, "no such mapping")
}

// mappedPages returns the number of pages of memory that this process has mapped, from /proc/self/pagemap.
func mappedPages(t *testing.T, memory []byte) (pages int) {
	t.Helper()
	file, err := os.Open("/proc/self/pagemap")
	require.NoError(t, err)
	defer file.Close()
	page := os.Getpagesize()
	entries := make([]byte, 8*len(memory)/page)
	_, err = file.ReadAt(entries, 8*int64(uintptr(unsafe.Pointer(&memory[0])))/int64(page))
	require.NoError(t, err)
	for i := 0; i < len(entries); i += 8 {
		if binary.NativeEndian.Uint64(entries[i:])>>63 != 0 {
			pages++
		}
	}
	return pages
}

// isOld reports whether the kernel may lack support: Linux has it since 6.7 on amd64, and since 6.10 on arm64.
func isOld(t *testing.T) bool {
	t.Helper()
	var name unix.Utsname
	require.NoError(t, unix.Uname(&name))
	var major, minor int
	_, err := fmt.Sscanf(unix.ByteSliceToString(name.Release[:]), "%d.%d", &major, &minor)
	require.NoError(t, err)
	return major < 6 || major == 6 && minor < 10
}
