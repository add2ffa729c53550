package tree

import (
	"math/rand/v2"
	"testing"
)

// TestNumbering checks that values are numbered in the order in which they are added, like with a map and a list.
func TestNumbering(t *testing.T) {
	var n numbering[sharedFunction]
	random := rand.New(rand.NewPCG(1, 2))
	for round := range 3 {
		numbers := map[sharedFunction]uint32{}
		for range 5000 {
			f := frame{name: string(rune('a' + random.IntN(2000))), mapping: mapping{file: string(rune('a' + round))}}
			key := f.share().of.Value().function
			want, known := numbers[key]
			if !known {
				want = uint32(len(numbers))
				numbers[key] = want
			}
			if got, isNew := n.number(key); got != want || isNew == known || n.values[got] != key {
				t.Fatalf("%q: %d (new: %v), want %d (new: %v)", f.name, got, isNew, want, !known)
			}
		}
		slots := len(n.slots)
		if n.clear(); len(n.values) != 0 || slots == 0 || len(n.slots) != slots {
			t.Fatalf("after clear: %d values, %d slots, were %d", len(n.values), len(n.slots), slots)
		}
	}
}

// TestSharedFrame checks that interned frames are equal only if all their fields are equal, and that they can be read
// back.
func TestSharedFrame(t *testing.T) {
	base := frame{"f", "f.c", 3, mapping{"/bin/a", "id"}, Native, false}
	if base.share() != base.share() || base.share().openFrame() != base {
		t.Errorf("%+v became %+v", base, base.share().openFrame())
	}
	for _, change := range []func(*frame){
		func(f *frame) { f.name = "g" }, func(f *frame) { f.file = "" }, func(f *frame) { f.startLine++ },
		func(f *frame) { f.mapping.file = "f.c" }, func(f *frame) { f.mapping.buildID = "" },
		func(f *frame) { f.kind = Kernel }, func(f *frame) { f.inlined = true },
	} {
		other := base
		if change(&other); other.share() == base.share() || other.share().openFrame() != other {
			t.Errorf("%+v became %+v", other, other.share().openFrame())
		}
		if a, b := compareFrames(base.share(), other.share()), compareFrames(other.share(), base.share()); a != -b || a == 0 {
			t.Errorf("order of %+v: %d and %d", other, a, b)
		}
	}
}
