package chain

import (
	"fmt"
	"strings"
	"testing"
)

// framesOf parses a chain, leaf first: a frame that native code called is upper case, a hidden frame is in brackets.
func framesOf(text string) (frames []Frame) {
	hidden := false
	for _, c := range text {
		switch c {
		case '(', ')':
			hidden = c == '('
		default:
			frames = append(frames, Frame{Last: c < 'a', Hidden: hidden})
		}
	}
	return frames
}

func TestPlace(t *testing.T) {
	const whole, cut = true, false
	for _, c := range []struct {
		about, chain string
		whole        bool
		native       Native
		want         string // the runs of each native frame, "" if the placement is not certain
	}{
		{"one to one", "aBcD", whole, Native{Evaluations: 2, Whole: true}, "aB cD"},
		{"all in one native frame", "abcD", whole, Native{Evaluations: 1, Whole: true}, "abcD"},
		{"the leaf has not begun", "aBcD", whole, Native{Evaluations: 3, Whole: true, Leaf: true}, "- aB cD"},
		{"the leaf enters", "aB", whole, Native{Evaluations: 2, Whole: true, Leaf: true, LeafEnters: true}, "- aB"},
		{"what the leaf has is old", "xYaB", whole,
			Native{Evaluations: 2, Whole: true, Leaf: true, LeafEnters: true}, "- aB"},
		{"no native frame for a run", "aBcD", whole, Native{Evaluations: 1, Whole: true}, ""},
		{"a caller has no run", "aB", whole, Native{Evaluations: 2, Whole: true}, ""},
		{"the thread's own frame", "aB(C)", whole, Native{Evaluations: 1, Whole: true}, "aB"},
		{"a trampoline", "ab(C)d(E)", whole, Native{Evaluations: 2, Whole: true}, "abC dE"},
		{"the native stack is cut", "aBcDeF", whole, Native{Evaluations: 2}, "aB cD"},
		{"it is cut, and the leaf may have no run", "aBcD", whole, Native{Evaluations: 2, Leaf: true, LeafMay: true}, ""},
		{"it is cut, and the leaf enters", "aBcD", whole, Native{Evaluations: 2, Leaf: true, LeafEnters: true}, ""},
		{"the chain is cut", "aBc", cut, Native{Evaluations: 3, Whole: true}, "aB c -"},
		{"the chain is cut, but has more", "aBcD", cut, Native{Evaluations: 1, Whole: true}, ""},
		{"nothing runs", "", whole, Native{Whole: true}, ""},
	} {
		placed, ok := Place(framesOf(c.chain), c.whole, c.native)
		names := strings.NewReplacer("(", "", ")", "").Replace(c.chain)
		var got []string
		for _, p := range placed {
			if got = append(got, names[p.From:p.To]); p.From == p.To {
				got[len(got)-1] = "-"
			}
		}
		if text := strings.Join(got, " "); text != c.want || !ok && text != "" {
			t.Errorf("%s: %q, %v, want %q", c.about, text, ok, c.want)
		}
	}
}

// FuzzPlace: each native frame gets frames of the chain in order, and no chain frame is used twice.
func FuzzPlace(f *testing.F) {
	f.Add([]byte{0, 1, 2, 3}, uint8(2), uint8(3))
	f.Fuzz(func(t *testing.T, chain []byte, evaluations, flags uint8) {
		var frames []Frame
		for _, b := range chain {
			frames = append(frames, Frame{Last: b&1 != 0, Hidden: b&2 != 0})
		}
		n := Native{Evaluations: int(evaluations), Whole: flags&1 != 0}
		if n.Evaluations > 0 {
			n.Leaf, n.LeafEnters, n.LeafMay = flags&6 != 0, flags&2 != 0, flags&4 != 0
		}
		placed, ok := Place(frames, flags&8 != 0, n)
		if !ok {
			return
		}
		if len(placed) != n.Evaluations {
			t.Fatalf("%d native frames have %d runs", n.Evaluations, len(placed))
		}
		at := 0
		for _, p := range placed {
			if p == (Placed{}) {
				continue
			}
			if p.From < at || p.To < p.From || p.To > len(frames) {
				t.Fatal(fmt.Sprint(placed))
			}
			at = p.To
		}
	})
}
