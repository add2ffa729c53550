package symbol

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/headwater/headwater/integration/testkit"
)

// pack compresses with xz.
func pack(t testing.TB, data []byte, args ...string) []byte {
	t.Helper()
	return []byte(run(t, string(data), "xz", append([]string{"-c"}, args...)...))
}

// withMiniDebug returns a stripped program with the result of packed as its .gnu_debugdata, and the address of inner, a
// local function.
func withMiniDebug(t *testing.T, packed func(debug []byte) []byte) (path string, inner uint64) {
	t.Helper()
	path = compile(t, "a.c", strings.Replace(chain, ".globl label", "", 1), "-O1", "-rdynamic")
	inner = nmAddress(t, path, "inner")
	debug := filepath.Join(t.TempDir(), "debug")
	run(t, "", "objcopy", "--only-keep-debug", "--remove-section=.comment", path, debug)
	run(t, "", "strip", path)
	section := writeFile(t, packed(readFile(t, debug)), t.TempDir(), "section.xz")
	run(t, "", "objcopy", "--add-section=.gnu_debugdata="+section, path)
	return path, inner
}

func TestMiniDebugInfo(t *testing.T) {
	path, inner := withMiniDebug(t, func(debug []byte) []byte { return pack(t, debug) })
	s, o := New(Options{DebugDirs: []string{t.TempDir()}}), object(t, 1, path)
	for addr, want := range map[uint64]string{inner: "inner", nmDynamic(t, path, "outer"): "outer"} {
		if got := s.Frames(o, addr, false)[0]; got.Function != want {
			t.Errorf("%#x is %+v, want %s", addr, got, want)
		}
	}
	if status, _ := s.Status(o); status.Reason != Named || status.Err != nil {
		t.Errorf("status %+v", status)
	}
}

func nmDynamic(t testing.TB, path, name string) uint64 {
	t.Helper()
	for _, f := range nmFunctions(t, path, "-D") {
		if f.name == name {
			return f.addr
		}
	}
	t.Fatalf("nm -D shows no %s", name)
	return 0
}

// Unreadable data takes no memory, is reported, and leaves the exported names.
func TestBrokenMiniDebugInfo(t *testing.T) {
	for name, packed := range map[string]func([]byte) []byte{
		"bomb":      func([]byte) []byte { return pack(t, make([]byte, 100<<20), "-1") },
		"truncated": func(debug []byte) []byte { p := pack(t, debug); return p[:len(p)/2] },
		"no xz":     func([]byte) []byte { return []byte("MiniDebugInfo") },
		"no ELF":    func([]byte) []byte { return pack(t, []byte("MiniDebugInfo")) },
	} {
		t.Run(name, func(t *testing.T) {
			path, inner := withMiniDebug(t, packed)
			s, o := New(Options{DebugDirs: []string{t.TempDir()}}), object(t, 1, path)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			if got := s.Frames(o, inner, false)[0]; got.Kind != Unknown {
				t.Errorf("%+v", got)
			}
			runtime.ReadMemStats(&after)
			if used := after.TotalAlloc - before.TotalAlloc; used > 4*MaxMiniDebugSize {
				t.Errorf("%d MiB allocated", used>>20)
			}
			if got := s.Frames(o, nmDynamic(t, path, "outer"), false)[0]; got.Function != "outer" {
				t.Errorf("%+v", got)
			}
			status, _ := s.Status(o)
			if status.Reason != DebugMissing || status.Err == nil ||
				!strings.Contains(status.Err.Error(), ".gnu_debugdata") {
				t.Errorf("status %+v", status)
			}
		})
	}
}

func TestUnxz(t *testing.T) {
	data := bytes.Repeat(readFile(t, "/proc/self/exe")[:1<<20], 3)
	for _, args := range [][]string{{"-0"}, {"-9e"}, {"--check=none"}, {"--check=sha256"}, {"--block-size=100000"}} {
		got, err := decompressXZ(pack(t, data, args...), len(data), soon())
		if err != nil || !bytes.Equal(got, data) {
			t.Errorf("xz %v: %d bytes, %v", args, len(got), err)
		}
	}
	packed := pack(t, data)
	if _, err := decompressXZ(packed, len(data)-1, soon()); !errors.Is(err, errXZTooLarge) {
		t.Errorf("limit: %v", err)
	}
	if _, err := decompressXZ(pack(t, data, "--x86", "--lzma2"), len(data), soon()); !errors.Is(err, errXZMethod) {
		t.Errorf("x86 filter: %v", err)
	}
	huge := bytes.Clone(packed)
	at := bytes.Index(huge, []byte{0x21, 1})
	huge[at+2] = 40 // a dictionary of 4 GiB
	if _, err := decompressXZ(huge, len(data), soon()); !errors.Is(err, errXZTooLarge) {
		t.Errorf("huge dictionary: %v", err)
	}
}

func soon() time.Time { return time.Now().Add(time.Minute) }

// Each of many blocks may require its own dictionary, which takes time to allocate.
func TestUnxzTime(t *testing.T) {
	packed := pack(t, []byte("headwater"), "--block-size=1")
	if _, err := decompressXZ(packed, 1<<20, time.Now().Add(-time.Second)); !errors.Is(err, errXZTime) {
		t.Errorf("%v", err)
	}
}

func FuzzUnxz(f *testing.F) {
	f.Add(pack(f, []byte(strings.Repeat("headwater ", 100))))
	f.Add(pack(f, []byte(strings.Repeat("headwater ", 100)), "--block-size=100", "--check=none"))
	f.Fuzz(func(t *testing.T, data []byte) {
		defer testkit.Cheap(t, len(data))()
		if out, err := decompressXZ(data, 1<<20, soon()); err == nil && len(out) > 1<<20 {
			t.Errorf("%d bytes", len(out))
		}
	})
}

// The stubs of a real program have the same names as in objdump.
func TestStubs(t *testing.T) {
	path, err := filepath.EvalSymlinks("/bin/ls")
	if err != nil {
		t.Fatal(err)
	}
	s, o := New(Options{DebugDirs: []string{t.TempDir()}}), object(t, 1, path)
	named := 0
	for line := range strings.Lines(run(t, "", "objdump", "-d", "-j", ".plt", "-j", ".plt.got", path)) {
		f := strings.Fields(line)
		if len(f) != 2 || !strings.HasSuffix(f[1], "@plt>:") {
			continue
		}
		named++
		want := strings.Trim(f[1], "<>:")
		if got := s.Frames(o, parseHex(t, f[0])+6, false)[0]; got.Function != want || got.Kind != Native {
			t.Errorf("%s is %+v, want %s", f[0], got, want)
		}
	}
	if named < 50 {
		t.Errorf("objdump shows %d stubs", named)
	}
	// In libc they lead to functions that choose an implementation for this processor.
	path = library(t, "libc.so.6")
	o = object(t, 2, path)
	resolved := 0
	for line := range strings.Lines(run(t, "", "objdump", "-d", "-j", ".plt", path)) {
		if f := strings.Fields(line); len(f) == 2 && strings.HasPrefix(f[1], "<*ABS*") &&
			strings.HasSuffix(f[1], "@plt>:") {
			got := s.Frames(o, parseHex(t, f[0]), false)[0].Function
			if !strings.HasSuffix(got, "@plt") {
				t.Errorf("%s is %s", f[1], got)
			}
			if !strings.HasPrefix(got, "*ABS*") {
				resolved++
			}
		}
	}
	if _, err := os.Stat(path); err == nil && resolved == 0 {
		t.Error("no resolver of libc has a name")
	}
}
