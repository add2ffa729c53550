package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/headwater/headwater/ebpf/language/jvm"
	"github.com/headwater/headwater/ebpf/unwind"
	"github.com/headwater/headwater/integration/testkit/walks"
)

// at makes places in one file.
func at(addresses ...uint64) (places []walks.Place) {
	for _, a := range addresses {
		places = append(places, walks.Place{File: "/program", Address: a})
	}
	return places
}

func TestJudge(t *testing.T) {
	tests := []struct {
		name    string
		ours    []walks.Place
		outcome unwind.Outcome
		theirs  []walks.Place
		end     ending
		want    verdict
	}{
		{"whole", at(1, 2, 3), unwind.Complete, at(1, 2, 3), atRoot, verdict{compared: 2, agreed: 2}},
		{"another frame", at(1, 2, 3), unwind.Complete, at(1, 9, 3), atRoot,
			verdict{difference: otherFrame, at: 1, compared: 2, agreed: 1}},
		{"the same address in another file", []walks.Place{{File: "/program", Address: 1}, {File: "/other", Address: 2}},
			unwind.Complete, at(1, 2), atRoot, verdict{difference: otherFrame, at: 1, compared: 1}},
		{"a frame left out", at(1, 3), unwind.Complete, at(1, 2, 3), atRoot,
			verdict{difference: otherFrame, at: 1, compared: 1}},
		{"called complete, and is not", at(1), unwind.CompleteFP, at(1, 2, 3), noFDE,
			verdict{difference: endedEarly, at: 1, compared: 2}},
		{"incomplete, and says so", at(1, 2), unwind.NoRow, at(1, 2, 3), atRoot, verdict{compared: 1, agreed: 1, missing: 1}},
		{"goes on after the root", at(1, 2, 3), unwind.Complete, at(1, 2), atRoot,
			verdict{difference: pastRoot, at: 2, compared: 2, agreed: 1}},
		{"libgcc has no FDE", at(1, 2, 3), unwind.Complete, at(1, 2), noFDE, verdict{compared: 1, agreed: 1, unchecked: 1}},
		{"nothing but the sampled instruction", at(1), unwind.NoRow, at(1), noFDE, verdict{}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got := newFiles().judge(&walks.Walk{Frames: test.ours, Outcome: test.outcome},
				&trace{frames: test.theirs, end: test.end})
			if diff := cmp.Diff(test.want, got, cmp.AllowUnexported(verdict{})); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestThread: a signal belongs to the last sample before it, but those that were taken
// in the handler belong to none.
func TestThread(t *testing.T) {
	walkAt := func(time, leaf uint64) walks.Walk {
		return walks.Walk{Time: time, TID: 7, Comm: "x", Outcome: unwind.Complete, Frames: at(leaf, 100)}
	}
	handler := walkAt(20, 77) // after the sample, before the handler looks at the clock
	handler.Frames[0].File = "/tmp/backtrace.c" + librarySuffix
	traceAt := func(entered, left, leaf uint64) trace {
		return trace{tid: 7, entered: entered, left: left, end: atRoot, frames: at(leaf, 100)}
	}
	r := compare(
		[]walks.Walk{walkAt(10, 1), walkAt(20, 2), handler, walkAt(25, 66), walkAt(40, 3), walkAt(60, 4)},
		&traces{byThread: map[uint32][]trace{7: {traceAt(21, 30, 2), traceAt(35, 36, 5), traceAt(41, 42, 3),
			traceAt(61, 62, 9)}, 8: {traceAt(21, 30, 2)}}},
		1)
	if r.Stacks != 2 || r.Whole != 2 || r.Agreed != 2 || r.NoSample != 2 || r.OtherInstant != 1 || r.wrong() != 1 {
		t.Errorf("%+v, want 2 whole stacks, 2 signals without a sample and one at another instruction", r)
	}
	if len(r.Examples) != 1 || r.Examples[0].Frames[0] != [2]string{"program+0x4", "program+0x9"} {
		t.Errorf("examples %+v", r.Examples)
	}
}

// TestThreadInProbe: a signal at the copy of an instruction that a uprobe is at is not compared.
func TestThreadInProbe(t *testing.T) {
	r := compare(
		[]walks.Walk{{Time: 10, TID: 7, Comm: "x", Outcome: unwind.NoRow, Frames: at(1)}},
		&traces{byThread: map[uint32][]trace{7: {{tid: 7, entered: 11, left: 12,
			frames: []walks.Place{{Address: 0x7fffffffe000}}}}}}, 1)
	if r.OtherInstant != 0 || r.Stacks != 0 || r.NoFrames["instruction copied for a uprobe"] != 1 {
		t.Errorf("%+v", r)
	}
}

// TestSame: paths of one file, or of equal ones, are the same place, and code of a Java VM is the same as
// long as it is as far from all other code of it.
func TestSame(t *testing.T) {
	dir := t.TempDir()
	file, link, other := filepath.Join(dir, "libx.so.1.2"), filepath.Join(dir, "libx.so.1"), filepath.Join(dir, "other")
	for _, path := range []string{file, other} {
		if err := os.WriteFile(path, []byte(path), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(file, link); err != nil {
		t.Fatal(err)
	}
	twin := filepath.Join(dir, "twin")
	if err := os.WriteFile(twin, []byte(file), 0o644); err != nil {
		t.Fatal(err)
	}
	f := newFiles()
	for _, test := range []struct {
		ours, theirs walks.Place
		want         bool
	}{
		{walks.Place{File: file, Address: 1}, walks.Place{File: link, Address: 1}, true},
		{walks.Place{File: file, Address: 1}, walks.Place{File: link, Address: 2}, false},
		{walks.Place{File: file, Address: 1}, walks.Place{File: other, Address: 1}, false},
		{walks.Place{File: file, Address: 1}, walks.Place{File: twin, Address: 1}, true},
		{walks.Place{File: "/gone/libx.so", Address: 1}, walks.Place{File: "/was/libx.so", Address: 1}, true},
		{walks.Place{File: "", Address: 1}, walks.Place{File: "", Address: 1}, true},
		{walks.Place{File: "", Address: 1}, walks.Place{File: file, Address: 1}, false},
		{walks.Place{File: file, Address: 1}, walks.Place{File: "", Address: 1}, false},
		// The first: its base is 0x1000.
		{walks.Place{File: "[hotspot] 3", Address: 0x10}, walks.Place{File: "", Address: 0x1010}, true},
		{walks.Place{File: "[hotspot] 3", Address: 0x20}, walks.Place{File: "", Address: 0x1020}, true},
		{walks.Place{File: "[hotspot] 3", Address: 0x20}, walks.Place{File: "", Address: 0x1028}, false},
		{walks.Place{File: "[hotspot] 4", Address: 0x20}, walks.Place{File: "", Address: 0x2020}, true},
	} {
		if got := f.samePlace(test.ours, test.theirs); got != test.want {
			t.Errorf("%v and %v: %t, want %t", test.ours, test.theirs, got, test.want)
		}
	}
}

func TestLacksInlined(t *testing.T) {
	theirs := []javaFrame{{"A.inner", "A.java", 3}, {"A.outer", "A.java", 7}, {"A.main", "A.java", 9}}
	frame := func(method string, line int) ourFrame { return ourFrame{javaFrame: javaFrame{method, "A.java", line}} }
	for _, test := range []struct {
		name string
		ours []ourFrame
		want bool
	}{
		{"no line, no inlined method", []ourFrame{frame("A.outer", 0), frame("A.main", 9)}, true},
		{"a line", []ourFrame{frame("A.outer", 7), frame("A.main", 9)}, false},
		{"another line below", []ourFrame{frame("A.outer", 0), frame("A.main", 8)}, false},
		{"another method", []ourFrame{frame("A.other", 0), frame("A.main", 9)}, false},
		{"ends early", []ourFrame{frame("A.inner", 3), frame("A.outer", 0)}, false},
	} {
		if got := lacksInlined(test.ours, theirs); got != test.want {
			t.Errorf("%s: %v", test.name, got)
		}
	}
	again := []javaFrame{{"A.f", "A.java", 2}, {"A.g", "A.java", 5}, {"A.f", "A.java", 3}, {"A.g", "A.java", 5}}
	if !lacksInlined([]ourFrame{frame("A.f", 0), frame("A.g", 5)}, again) {
		t.Error("the frame is the outer one of the same method")
	}
	if lacksInlined([]ourFrame{frame("A.f", 0), frame("A.g", 6)}, again) {
		t.Error("another line of the caller")
	}
}

// TestWithoutName: code that is only known to be compiled by the VM stands for any methods; callers do not.
func TestWithoutName(t *testing.T) {
	at := func(method string) javaFrame { return javaFrame{method, "A.java", 3} }
	code := ourFrame{noName: true, compiled: true}
	leaf, inCall := ourFrame{javaFrame: at("A.leaf")}, ourFrame{javaFrame: at("A.leaf"), returned: true}
	main := ourFrame{javaFrame: at("A.main")}
	theirs := []javaFrame{at("A.leaf"), at("A.inlined"), at("A.f"), at("A.main")}
	for _, test := range []struct {
		name   string
		ours   []ourFrame
		theirs []javaFrame
		differ int
	}{
		{"inlined methods", []ourFrame{leaf, code, main}, theirs, 0},
		{"alone", []ourFrame{leaf, code, main}, append(theirs[:1:1], theirs[2:]...), 0},
		{"another caller", []ourFrame{leaf, code, {javaFrame: at("A.other")}}, theirs, 1},
		{"behind the call of a stub", []ourFrame{inCall, code, main}, append([]javaFrame{at("A.next")}, theirs...), 0},
		{"another caller of that", []ourFrame{inCall, code, {javaFrame: at("A.other")}}, theirs, 1},
	} {
		r := newJavaReport(0)
		r.stack(test.ours, &javaTrace{frames: test.theirs})
		if r.wrong() != test.differ || r.Stacks+sumCounts(r.NotCompared) != 1 {
			t.Errorf("%s: %+v", test.name, r)
		}
	}
	if lacksInlined([]ourFrame{leaf, code, {javaFrame: at("A.f")}, main}, append(theirs[:1:1], theirs[2:]...)) {
		t.Error("HotSpot has nothing for the code")
	}
}

// TestBetweenFrames: callers of HotSpot do not count where the leaf makes or leaves its frame, if the leaf is the same.
func TestBetweenFrames(t *testing.T) {
	const leaves, works = "\x5d\x49\x3b\xa7\x40\x03\x00\x00\x0f\x87\x01\x00\x00\x00\xc3\xf4",
		"\x0f\x87\x01\x00\x00\x00\x48\x8b\x00\x90\x90\x90\x90\x90\x90\x90"
	at := func(method string) javaFrame { return javaFrame{method, "A.java", 3} }
	ours := []ourFrame{{javaFrame: at("A.inlined"), inlined: true}, {javaFrame: at("A.leaf")}, {javaFrame: at("A.main")}}
	for _, test := range []struct {
		name   string
		code   string
		theirs []javaFrame
		differ int
	}{
		{"another caller", leaves, []javaFrame{at("A.inlined"), at("A.leaf"), at("A.stale"), at("A.main")}, 0},
		{"within the code", works, []javaFrame{at("A.inlined"), at("A.leaf"), at("A.stale"), at("A.main")}, 1},
		{"another leaf", leaves, []javaFrame{at("A.inlined"), at("A.other"), at("A.main")}, 1},
		{"equal", leaves, []javaFrame{at("A.inlined"), at("A.leaf"), at("A.main")}, 0},
	} {
		r := newJavaReport(0)
		r.stack(ours, &javaTrace{frames: test.theirs, code: []byte(test.code)})
		if r.wrong() != test.differ || r.Stacks+sumCounts(r.NotCompared) != 1 {
			t.Errorf("%s: %+v", test.name, r)
		}
	}
	for code, want := range map[string]bool{
		leaves[1:]: true, leaves[8:] + "\x90\x90": true, "\x89\x84\x24\x00\xc0\xfe\xff\x55": true,
		"\x89\x84\x24\x00\x01\x00\x00\x55": false, "\x48\x83\xc4\x20\x5d\xc3\x90\x90": false, "": false,
	} {
		if got := betweenFrames([]byte(code)); got != want {
			t.Errorf("% x: %v", code, got)
		}
	}
}

// TestLosesItsWay: HotSpot's callers are ignored if it starts from a leaf outside Java, and skips the first caller, or
// does not reach the first method of the thread.
func TestLosesItsWay(t *testing.T) {
	at := func(method string) javaFrame { return javaFrame{method, "A.java", 3} }
	for _, test := range []struct {
		name   string
		inCall bool
		theirs []javaFrame
		differ int
	}{
		{"ends elsewhere", true, []javaFrame{at("A.stale")}, 0},
		{"skips callers", true, []javaFrame{at("A.main")}, 0},
		{"ends there", true, []javaFrame{at("A.stale"), at("A.main")}, 1},
		{"as long", true, []javaFrame{at("A.stale"), at("A.stale"), at("A.stale")}, 1},
		{"a leaf in Java", false, []javaFrame{at("A.stale")}, 1},
	} {
		r := newJavaReport(0)
		ours := []ourFrame{{javaFrame: at("A.leaf")}, {javaFrame: at("A.f")}, {javaFrame: at("A.main")}}
		ours[0].returned = test.inCall
		r.stack(ours, &javaTrace{frames: test.theirs})
		if r.wrong() != test.differ || r.Stacks+sumCounts(r.NotCompared) != 1 {
			t.Errorf("%s: %+v", test.name, r)
		}
	}
}

// TestMayBeAt: a leaf in a file is known by its offset in the page, any other leaf by its address.
func TestMayBeAt(t *testing.T) {
	for _, test := range []struct {
		place walks.Place
		want  bool
	}{
		{walks.Place{File: "/lib/libjvm.so", Address: 0x345678}, true},
		{walks.Place{File: "/lib/libjvm.so", Address: 0x345679}, false},
		{walks.Place{File: jvm.CodePath + " 7", Address: 0x7f0000345678}, false},
		{walks.Place{Address: 0x7f0012345678}, true},
	} {
		if got := mayBeAt(test.place, 0x7f0012345678); got != test.want {
			t.Errorf("%+v: %v", test.place, got)
		}
	}
}
