package verify

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestWriteText(t *testing.T) {
	r := &Report{
		Seconds: 10, Samples: 1000, UserStacks: 900, Complete: 0.9999999, Lost: 7,
		StacksWhole: 700, StacksInPart: 190, StacksNotComparable: 10, Coverage: 0.75, NotCheckable: 3000,
		Stacks: 890, StacksAgreed: 889, WholeAgreed: 699,
		Frames: 9000, FramesAgreed: 8999, FramesMissing: 1, Agreement: 8999. / 9000,
		InKernel: 800, ByRows: 60, ByCode: 5, ByCFI: 25,
		Outcomes: map[string]uint64{"complete": 899, "no_row": 1, "kernel_thread": 100},
		Roots:    map[string]uint64{"outermost": 700}, InPart: map[string]uint64{"no_cfi": 190},
		NotComparable: map[string]uint64{"perf recorded no copy": 10},
		Disagreements: []Disagreement{{OtherFrame, "/lib/x.so", 1}},
		Incomplete:    []Incomplete{{"no_row", "/lib/y.so", 1, 1}},
		Languages:     []Language{{"python 3.11", 41, 2, 0, ""}, {"PHP", 0, 0, 43, "not yet"}},
		Examples: []Example{{
			Reason: "other_frame", Binary: "/lib/x.so", Comm: "x", PID: 5,
			Outcome: "complete", End: "bad_cfi", Error: "why",
			Frames: []FramePair{
				{"f (x.so+0x1)", "f (x.so+0x1)"}, {"g (x.so+0x2*)", "g (x.so+0x2)"},
				{"h (x.so+0x3)", "i (x.so+0x4)"}, {"", "_start (x+0x5)"},
			},
		}},
	}
	var b strings.Builder
	if err := r.WriteText(&b); err != nil {
		t.Fatal(err)
	}
	text := b.String()
	const want = "900 user stacks: 700 checked fully, 190 partly, 10 not; " +
		"frames checked: 75.000 % of 11999\n"
	if !strings.HasPrefix(text, want) {
		t.Errorf("it does not begin with %q:\n%s", want, text)
	}
	for _, want := range []string{
		"1000 samples in 10.0 s, 900 with a user stack; 99.999 % of these are complete", // never shown as 100 %
		"9000 frames compared: 8999 agree, 99.989 %; incomplete stacks lack 1 frames",
		"Lost: 7 samples",
		"890 stacks compared: 889 agree, 699 of them whole; 800 walked in the kernel, " +
			"60 finished in user space by the same rows, 5 by code analysis, 25 by complete CFI",
		"190  no_cfi",
		"10  perf recorded no copy",
		"700  outermost",
		"1  other_frame  /lib/x.so",
		"python 3.11  41 named  2 could not be read  0 have no names",
		"PHP          0 named   0 could not be read  43 have no names  not yet",
		"1  no_row  /lib/y.so  reference goes on: 1",
		"bad_cfi: why",
		"0 =  f (x.so+0x1)",
		"1 =  g (x.so+0x2*)",
		"2 !  h (x.so+0x3)",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
}

// TestJSON checks that empty lists are lists in JSON, for programs that read it.
func TestJSON(t *testing.T) {
	r := newResults(Options{})
	b, err := json.Marshal(r.report(0, nil))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"disagreements":[]`, `"incomplete":[]`, `"examples":[]`, `"agreement":0`} {
		if !strings.Contains(string(b), want) {
			t.Errorf("%s is not in %s", want, b)
		}
	}
}
