package symbol

import (
	"bytes"
	"testing"
	"unicode/utf8"

	"github.com/headwater/headwater/ebpf/object/elffile"
	"github.com/headwater/headwater/integration/testkit"
)

// FuzzObject names addresses of damaged programs with all sources.
func FuzzObject(f *testing.F) {
	small := []string{"-nostdlib", "-Wl,-z,max-page-size=64", "-Wl,-z,noseparate-code", "-Wl,--build-id"}
	source := "int g(void); int h(void) { return g(); } __asm__(\".globl l\\nl: nop\");"
	for _, flags := range [][]string{{"-g1"}, {"-s"}} {
		path := compile(f, "a.c", source, append(append(small, "-shared", "-fPIC"), flags...)...)
		f.Add(readFile(f, path), uint64(0x300))
	}
	f.Fuzz(func(t *testing.T, data []byte, addr uint64) {
		defer testkit.Cheap(t, len(data))()
		s := New(Options{DebugDirs: []string{}})
		o := &Object{ID: 1, Path: "/x", Open: func() (*elffile.File,
			error) {
			return elffile.New(bytes.NewReader(data))
		}}
		for _, at := range []uint64{addr, addr + 16, addr &^ 0xff} {
			frames := s.Frames(o, at, false)
			if len(frames) == 0 {
				t.Fatal("no frame")
			}
			for _, frame := range frames {
				if frame.Function == "" || !utf8.ValidString(frame.Function) || !utf8.ValidString(frame.File) {
					t.Errorf("%+v", frame)
				}
			}
		}
		if n := s.Stats().TableBytes; n > 1<<20+64*len(data) {
			t.Errorf("%d bytes held for a file of %d", n, len(data))
		}
	})
}
