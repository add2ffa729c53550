package elffile

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/headwater/headwater/integration/testkit"
)

// exercise calls every reader with any image.
func exercise(f *File) {
	f.BuildID()
	f.GoBuildID()
	f.DebugLink()
	f.EHFrame()
	f.EHFrameHdr()
	f.DebugFrame()
	f.Section(".debug_info")
	f.Symbols()
	f.Stubs()
	f.IsLoader()
	f.IsCLibrary()
	f.IsGo()
	f.IsMusl()
	f.DynamicSymbol("f")
	f.AltLink()
	f.Objects("f")
	f.RelativeRelocations(func(at, _ uint64) bool { f.ReadVaddr(make([]byte, 16), at); return true })
	f.LoadRanges()
	f.SectionRange(".text")
	for _, s := range f.TextSegments() {
		f.Bias(s.Vaddr, s.Vaddr+s.Memsz, s.Offset)
	}
}

func allocatedBytes(do func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	do()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

func FuzzFile(f *testing.F) {
	add := func(path string) {
		data, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	small := []string{"-nostdlib", "-Wl,-z,max-page-size=64", "-Wl,-z,noseparate-code", "-Wl,--build-id"}
	add(compile(f, "void _start(void) {}", append(small, "-s")...))
	add(compile(f, "int f(void) { return 0; }", append(small, "-shared", "-fPIC", "-g1", "-gz=zlib")...))
	add(compile(f, "int f(void) { return 0; }", "-c"))
	f.Add([]byte("\x7fELF"))
	f.Fuzz(func(t *testing.T, data []byte) {
		defer testkit.Cheap(t, len(data))()
		file, err := New(bytes.NewReader(data))
		if err != nil {
			return
		}
		used := allocatedBytes(func() { exercise(file) })
		// compressed sections expand up to MaxRatio times, and a buffer grows in steps
		if limit := uint64(32<<20 + 8*MaxRatio*len(data)); used > limit {
			t.Errorf("%d bytes allocated for an image of %d", used, len(data))
		}
		if _, err := hex.DecodeString(file.BuildID()); err != nil {
			t.Errorf("build ID %q: %v", file.BuildID(), err)
		}
	})
}

func FuzzDebugLink(f *testing.F) {
	f.Add([]byte("a.debug\x00\x12\x34\x56\x78"))
	f.Add([]byte("abc\x00\xff\xff\xff\xff"))
	f.Add([]byte("../x\x00\x00\x00\x00\x00\x00\x00\x00"))
	f.Fuzz(func(t *testing.T, data []byte) {
		name, _, ok := parseDebugLink(data, binary.LittleEndian)
		if ok && (filepath.Base(name) != name || !bytes.HasPrefix(data, []byte(name+"\x00"))) {
			t.Errorf("name %q", name)
		}
	})
}
