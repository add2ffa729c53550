package dwarfline

import (
	"encoding/binary"
	"testing"

	"github.com/headwater/headwater/integration/testkit"
)

// FuzzFrames looks up addresses in sections of any content. The corpus contains sections of small
// programs of gcc and clang in DWARF 2 to 5.
func FuzzFrames(f *testing.F) {
	f.Add([]byte("\x0c\x00\x00\x00\x04\x00\x00\x00\x00\x00\x08\x01\x00\x00\x00\x00"), []byte(circleAbbrevs), []byte{},
		[]byte{}, []byte{}, uint64(0x1010))
	f.Fuzz(func(t *testing.T, info, abbrev, line, ranges, str []byte, addr uint64) {
		defer testkit.Cheap(t, len(info)+len(abbrev)+len(line)+len(ranges)+len(str))()
		s := &Sections{
			Order: binary.LittleEndian, Info: info, Abbrev: abbrev, Line: line, LineStr: str, Str: str, StrOffsets: str,
			Addr: ranges, Ranges: ranges, RngLists: ranges, Aranges: ranges,
		}
		d, err := New(s, Options{CacheBytes: 1 << 20,
			Supplementary: func() (*Sections, error) { same := *s; return &same, nil }})
		if err != nil {
			return
		}
		for _, at := range []uint64{addr, addr + 1, addr} {
			frames, _ := d.Frames(at)
			if len(frames) > maxFrames {
				t.Errorf("%d frames", len(frames))
			}
			for _, frame := range frames {
				if frame.Line < 0 || len(frame.Function) > maxText || len(frame.File) > 3*maxText+2 {
					t.Errorf("frame %+v", frame)
				}
			}
		}
		d.Close()
	})
}
