package v8

import (
	"path/filepath"
	"testing"

	hw "github.com/headwater/headwater/ebpf/language"
	"github.com/headwater/headwater/integration/testkit"
)

// TestInlinedLoop checks the functions and lines that are shown while the loop of an inlined function runs. The loop
// calls no functions.
func TestInlinedLoop(t *testing.T) {
	script, err := filepath.Abs("testdata/loop.js")
	if err != nil {
		t.Fatal(err)
	}
	for _, node := range nodes(t) {
		t.Run(filepath.Base(filepath.Dir(node)), func(t *testing.T) {
			p, _ := start(t, node, script, "", "--allow-natives-syntax")
			looped := func() (ok bool) {
				t.Helper()
				p.stop(t, func(pc, fp uint64) {
					got := p.stack(t, newInterpreter(&p.v, hw.Range{}, &lines{}), pc, fp)
					if ok = len(p.wrong) == 0 && len(got) > 1 && got[0].Name == "sum" && (got[0].Line == 6 || got[0].Line == 7) &&
						got[1].Name == "twice" && (got[1].Line == 13 || got[1].Line == 14); !ok {
						t.Logf("%v", got)
					}
				})
				return ok
			}
			testkit.Eventually(t, "the loop is at work", func() bool { p.find(t); return looped() })
			good, tries := 0, 40
			for range tries {
				before := p.ran(t)
				testkit.Eventually(t, "the loop has gone on", func() bool { return p.ran(t) > before+5_000_000 })
				if looped() {
					good++
				}
			}
			if t.Logf("%d of %d stacks", good, tries); good*10 < tries*9 {
				t.Errorf("%d of %d stacks are as the source says", good, tries)
			}
		})
	}
}

// TestDetailed: a table has positions of all instructions if an instruction that is not a call has one.
func TestDetailed(t *testing.T) {
	add := "\x83\xc1\x01"
	call := "\xe8\x01\x02\x03\x04"
	through := "\x41\xff\x95\xf0\x4e\x00\x00"
	for name, test := range map[string]struct {
		code   string
		places []position
		want   bool
	}{
		"calls":             {add + add + call + add + through, []position{{at: 3}, {at: 11}, {at: 21}}, false},
		"an addition":       {call + add + call, []position{{at: 0}, {at: 5}, {at: 8}}, true},
		"not an end":        {add + add + call, []position{{at: 0}, {at: 4}}, false},
		"no code":           {add + "\x06", []position{{at: 0}, {at: 4}}, false},
		"behind the end":    {add, []position{{at: 0}, {at: 300}}, false},
		"one":               {add, []position{{at: 0}}, false},
		"none":              {add, nil, false},
		"of the entry only": {add + call, []position{{at: entry}, {at: 3}}, false},
	} {
		m := newReader(&Layout{PositionFlags: absent}, &garbage{data: []byte(test.code)}, &lines{})
		if got := m.detailed(code{low: 0, high: uint64(len(test.code))}, positions(test.places...)); got != test.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
