package tree

import (
	"fmt"
	"testing"
)

// byName adds up partMaker, and returns its functions by name.
func byName(t *testing.T, s *Sums) map[string]Function {
	t.Helper()
	if _, err := s.Add(fold(t, nil, partMaker().Profile), Choice{}); err != nil {
		t.Fatal(err)
	}
	got := map[string]Function{}
	for _, f := range s.Functions() {
		got[f.Name] = f
	}
	return got
}

func checkFunctions(t *testing.T, got map[string]Function, want ...Function) {
	t.Helper()
	for _, f := range want {
		if got[f.Name] != f {
			t.Errorf("got %+v, want %+v", got[f.Name], f)
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d functions, not %d: %v", len(got), len(want), got)
	}
}

func TestSums(t *testing.T) {
	s := NewSums(DefaultMaxFunctions)
	checkFunctions(t, byName(t, s), Function{"main", "a", "native", 7, 17}, Function{"f", "a", "native", 2, 7},
		Function{"g", "a", "native", 0, 5}, Function{"leaf", "b", "native", 8, 8})
	checkFunctions(t, byName(t, s), Function{"main", "a", "native", 14, 34}, Function{"f", "a", "native", 4, 14},
		Function{"g", "a", "native", 0, 10}, Function{"leaf", "b", "native", 16, 16})
	if s.Total() != 34 || s.Unit() != "nanoseconds" {
		t.Errorf("%d %s, want 34 nanoseconds", s.Total(), s.Unit())
	}
}

// TestSumsAreBounded checks that the functions beyond the limit are one function, which counts once for each sample.
func TestSumsAreBounded(t *testing.T) {
	checkFunctions(t, byName(t, NewSums(1)), Function{"main", "a", "native", 7, 17},
		Function{OtherFunctions, "", "small", 10, 10})
}

// TestSumsOfSearch checks that samples with several matching functions count once.
func TestSumsOfSearch(t *testing.T) {
	for text, want := range map[string]struct {
		found     int64
		functions int
	}{
		"LEAF": {8, 1}, "^[fg]$": {10, 2}, "^b$": {8, 1}, "g(": {0, 0}, "nothing": {0, 0}, "^(main|leaf)$": {17, 2},
	} {
		s := NewSums(DefaultMaxFunctions)
		s.Search(text)
		if got := byName(t, s); len(got) != want.functions || s.Found() != want.found {
			t.Errorf("%s: found %d in %v, want %d in %d functions", text, s.Found(), got, want.found, want.functions)
		}
	}
}

func TestSumsOfDifferentTypes(t *testing.T) {
	s := NewSums(DefaultMaxFunctions)
	byName(t, s)
	other := partMaker()
	other.SampleType[0].Unit = "bytes"
	if _, err := s.Add(fold(t, nil, other.Profile), Choice{}); fmt.Sprint(err) !=
		"profiles of cpu in nanoseconds and of cpu in bytes cannot be added up" {
		t.Error(err)
	}
}
