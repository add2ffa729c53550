package heap

import (
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headwater/headwater/ebpf/kernel"
	"github.com/headwater/headwater/ebpf/object/elffile"
	"github.com/headwater/headwater/integration/testkit/need"
)

// TestCallOf: names of allocator functions are known with and without their prefixes, and no other names are.
func TestCallOf(t *testing.T) {
	for name, want := range map[string]kernel.HeapCall{
		"malloc": kernel.HeapMalloc, "je_malloc": kernel.HeapMalloc, "_rjem_malloc": kernel.HeapMalloc,
		"tc_calloc": kernel.HeapCalloc, "mi_realloc": kernel.HeapRealloc, "malloc@@GLIBC_2.2.5": kernel.HeapMalloc,
		"posix_memalign": kernel.HeapPosixMemalign, "memalign": kernel.HeapAligned, "mi_zalloc": kernel.HeapNew,
		"reallocarray": kernel.HeapReallocArray, "_Znwm": kernel.HeapNew, "_ZnamRKSt9nothrow_t": kernel.HeapNew,
		"mi_malloc": kernel.HeapMalloc, "mi_malloc_aligned": kernel.HeapNew, "mi_zalloc_aligned": kernel.HeapNew,
		"mi_realloc_aligned": kernel.HeapRealloc, "mi_heap_malloc": kernel.HeapAligned, "mi_new": kernel.HeapNew,
		"mi_heap_calloc": kernel.HeapOfCalloc, "mi_heap_mallocn": kernel.HeapOfCalloc, "mi_new_n": kernel.HeapCalloc,
		"mi_heap_realloc_aligned": kernel.HeapOfRealloc, "mi_heap_recalloc": kernel.HeapOfReallocArray,
		"mi_heap_alloc_new": kernel.HeapAligned, "mi_free_size_aligned": kernel.HeapFree,
		"mi_aligned_alloc": kernel.HeapAligned,
		"_rjem_mallocx":    kernel.HeapNew, "_rjem_rallocx": kernel.HeapRealloc, "_rjem_sdallocx": kernel.HeapFree,
		"_ZdlPv": kernel.HeapFree, "_ZdaPvmSt11align_val_t": kernel.HeapFree, "sdallocx": kernel.HeapFree,
	} {
		got, ok := callOf(name)
		require.True(t, ok, name)
		require.Equal(t, want, got, name)
	}
	for _, name := range []string{"", "mallocs", "xmalloc", "zalloc", "malloc_usable_size", "je_", "_Zfree",
		"mi_expand", "mi_heap_new", "mi_heap_free", "mi_heap_memalign", "mi_new_", "mi_usable_size", "xallocx",
		"malloc_aligned",
		"zalloc"} {
		_, ok := callOf(name)
		require.False(t, ok, name)
	}
}

// TestFunctions: the C library's functions are at the addresses that nm shows, each place once; a library that calls
// the allocator of another library has none.
func TestFunctions(t *testing.T) {
	need.Tools(t, "nm")
	const libc = "/lib/x86_64-linux-gnu/libc.so.6"
	found := functionsIn(t, libc)
	out, err := exec.Command("nm", "-D", "--defined-only", libc).Output()
	require.NoError(t, err)
	want := map[string]string{} // addresses by name
	for _, line := range strings.Split(string(out), "\n") {
		if f := strings.Fields(line); len(f) == 3 {
			name, _, _ := strings.Cut(f[2], "@")
			want[name] = strings.TrimLeft(f[0], "0")
		}
	}
	places := map[uint64]bool{}
	for _, f := range found {
		require.Equal(t, want[f.Name], strconv.FormatUint(f.Offset, 16), "%s: text is at its address in this file", f.Name)
		require.False(t, places[f.Offset], f.Name)
		places[f.Offset] = true
	}
	for _, name := range []string{"malloc", "calloc", "realloc", "posix_memalign", "free"} {
		require.True(t, slices.ContainsFunc(found, func(f kernel.HeapFunction) bool { return f.Name == name }), name)
	}
	require.Empty(t, functionsIn(t, "/lib/x86_64-linux-gnu/libm.so.6"))
	cxx, err := exec.Command("gcc", "-print-file-name=libstdc++.so.6").Output()
	require.NoError(t, err)
	if path := strings.TrimSpace(string(cxx)); strings.HasPrefix(path, "/") {
		require.Empty(t, functionsIn(t, path), "its operator new calls malloc")
	}
}

func functionsIn(t *testing.T, path string) []kernel.HeapFunction {
	t.Helper()
	f, err := elffile.Open(path)
	require.NoError(t, err)
	defer f.Close()
	found, leftOut, err := functions(f)
	require.NoError(t, err)
	require.NoError(t, leftOut)
	return found
}

// TestSkipped: the start of a function before a cheap instruction is skipped only if it changes no register.
func TestSkipped(t *testing.T) {
	for name, c := range map[string]struct {
		code []byte
		want int
	}{
		"push %r12":                          {[]byte{0x41, 0x54, 0x55, 0x53}, 0},
		"endbr64; push %rbp":                 {[]byte{0xf3, 0x0f, 0x1e, 0xfa, 0x55, 0x53}, 4},
		"test %rdi,%rdi; je":                 {[]byte{0x48, 0x85, 0xff, 0x0f, 0x84, 0xbf, 0, 0, 0}, 3},
		"endbr64; test %rdi,%rdi; je":        {[]byte{0xf3, 0x0f, 0x1e, 0xfa, 0x48, 0x85, 0xff, 0x74, 0x10}, 7},
		"test %rdi,%rdi; mov %rdi,%rax":      {[]byte{0x48, 0x85, 0xff, 0x48, 0x89, 0xf8}, 0},
		"test %rsi,%rsi; je":                 {[]byte{0x48, 0x85, 0xf6, 0x74, 0x10}, 0},
		"mov %rdi,%rax; push %rbp":           {[]byte{0x48, 0x89, 0xf8, 0x55, 0x53}, 0},
		"endbr64; cmpb $0x0,0x100(%rip)":     {[]byte{0xf3, 0x0f, 0x1e, 0xfa, 0x80, 0x3d, 0, 1, 0, 0, 0}, 0},
		"endbr64 at the end of what is read": {[]byte{0xf3, 0x0f, 0x1e, 0xfa}, 0},
	} {
		require.Equal(t, c.want, skipped(c.code), name)
	}
}
