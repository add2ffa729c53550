package tree

import (
	"bytes"
	"testing"

	"github.com/google/pprof/profile"
)

func fold(t testing.TB, show func(string) string, p *profile.Profile) *Folded {
	t.Helper()
	f, err := Fold(p, show)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// TestFolded checks that folded profiles give the same trees as the profiles themselves.
func TestFolded(t *testing.T) {
	for name, of := range map[string]func() *Builder{
		"all":     func() *Builder { return NewBuilder(nil) },
		"callers": func() *Builder { return NewCallers(nil, "f", "") },
		"callees": func() *Builder { return NewCallees(nil, "g", "a") },
	} {
		direct, added := of(), of()
		for _, p := range someProfiles() {
			if err := direct.Add(p); err != nil {
				t.Fatal(err)
			}
			if _, err := added.AddFolded(fold(t, nil, p), Choice{}); err != nil {
				t.Fatal(err)
			}
		}
		if direct.Total() == 0 {
			t.Errorf("%s: nothing was added", name)
		}
		want, got := encode(t, direct.Tree(Options{Share: -1})), encode(t, added.Tree(Options{Share: -1}))
		if !bytes.Equal(got, want) {
			t.Errorf("%s: got %.300s, want %.300s", name, got, want)
		}
	}
}

// TestLinesBeyondFiles checks that line numbers out of range are not shown.
func TestLinesBeyondFiles(t *testing.T) {
	for line, want := range map[int64]int32{1: 1, 1<<31 - 1: 1<<31 - 1, 1 << 31: 0, 1<<32 + 1: 0, -1: 0} {
		p := partMaker().Profile
		for _, l := range p.Location {
			l.Line[0].Line = line
		}
		if got := mergeOf(t, p).Tree(Options{}).Nodes.Line; got[1] != want {
			t.Errorf("line %d is shown as %d, want %d", line, got[1], want)
		}
	}
}

// TestFoldedNames checks that functions keep the names from Fold.
func TestFoldedNames(t *testing.T) {
	m := NewMerge()
	shown := func(name string) string { return name + "()" }
	if _, err := m.Add(fold(t, shown, partMaker().Profile), Choice{}); err != nil {
		t.Fatal(err)
	}
	if got := stacksOf(m.Tree(Options{})); got[0] != "[main() f() g() f()] 2" {
		t.Errorf("got %q", got)
	}
}

func TestFoldedOfAnotherType(t *testing.T) {
	of := partMaker()
	of.SampleType[0] = &profile.ValueType{Type: "page_faults", Unit: "bytes"}
	if _, err := mergeOf(t, partMaker().Profile).Add(fold(t, nil, of.Profile), Choice{}); err == nil {
		t.Error("bytes were added to nanoseconds")
	}
}
