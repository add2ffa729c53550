package main

import (
	"bytes"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/pprof/profile"
	"google.golang.org/protobuf/encoding/protowire"
)

// wireMessage assembles a message of protobuf's wire format.
type wireMessage []byte

func (m wireMessage) bytes(number protowire.Number, value []byte) wireMessage {
	return protowire.AppendBytes(protowire.AppendTag(m, number, protowire.BytesType), value)
}

func (m wireMessage) number(number protowire.Number, value uint64) wireMessage {
	return protowire.AppendVarint(protowire.AppendTag(m, number, protowire.VarintType), value)
}

func packed(values ...uint64) (b []byte) {
	for _, v := range values {
		b = protowire.AppendVarint(b, v)
	}
	return b
}

func attributeMessage(key uint64, text string) []byte {
	return wireMessage{}.number(1, key).bytes(2, wireMessage{}.bytes(1, []byte(text)))
}

// TestParseOTLP reads a request with a whole stack, taken twice, and one that
// ends early.
func TestParseOTLP(t *testing.T) {
	dictionary := wireMessage{}.
		bytes(2, nil).                                                                    // location 0
		bytes(2, wireMessage{}.number(1, 1).number(2, 4096).bytes(4, packed(1))).         // 1: native
		bytes(2, wireMessage{}.number(2, 8192).bytes(4, packed(2))).                      // 2: kernel
		bytes(2, wireMessage{}.bytes(4, packed(3))).                                      // 3: abort
		bytes(2, wireMessage{}.bytes(3, wireMessage{}.number(1, 1)).bytes(4, packed(5))). // 4: Python
		bytes(3, nil).bytes(3, wireMessage{}.number(1, 3)).
		bytes(5, nil).bytes(5, []byte("profile.frame.type")).bytes(5, []byte("thread.name")).bytes(5, []byte("f01")).
		bytes(6, nil).
		bytes(6, attributeMessage(1, "native")).bytes(6, attributeMessage(1, "kernel")).
		bytes(6, attributeMessage(1, "abort-marker")).bytes(6, attributeMessage(2, "burn")).
		bytes(6, attributeMessage(1, "cpython")).
		bytes(7, nil).
		bytes(7, wireMessage{}.bytes(1, packed(2, 1, 1))). // stack 1
		bytes(7, wireMessage{}.bytes(1, packed(1, 3))).    // stack 2
		bytes(7, wireMessage{}.bytes(1, packed(4, 1)))     // stack 3
	var times []byte
	times = protowire.AppendFixed64(times, 1e9)
	times = protowire.AppendFixed64(times, 2e9)
	whole := wireMessage{}.number(1, 1).bytes(2, packed(4)).bytes(5, times)
	broken := wireMessage{}.number(1, 2).bytes(2, packed(4)).bytes(5, times[:8])
	script := wireMessage{}.number(1, 3).bytes(2, packed(4)).bytes(5, times[:8])
	pid := wireMessage{}.bytes(2, wireMessage{}.number(3, 77)).bytes(1, []byte("process.pid"))
	request := wireMessage{}.
		bytes(1, wireMessage{}.bytes(1, wireMessage{}.bytes(1, pid)).bytes(2,
			wireMessage{}.bytes(2, wireMessage{}.bytes(2, whole).bytes(2, broken).bytes(2, script)))).
		bytes(2, dictionary)

	stacks, err := parseOTLP(request)
	if err != nil {
		t.Fatal(err)
	}
	want := []stack{
		{comm: "burn", count: 1, frames: 2, pid: 77, after: time.Unix(1, 0), before: time.Unix(1, 0)},
		{comm: "burn", count: 1, frames: 2, pid: 77, after: time.Unix(2, 0), before: time.Unix(2, 0)},
		{comm: "burn", count: 1, frames: 1, broken: true, reason: "abort-marker", pid: 77,
			after: time.Unix(1, 0), before: time.Unix(1, 0)},
		{comm: "burn", count: 1, frames: 2, pid: 77, script: []string{"f01"},
			after: time.Unix(1, 0), before: time.Unix(1, 0)},
	}
	checkStacks(t, stacks, want)
	for i := range request {
		parseOTLP(request[:i]) // must not panic
	}
}

// TestParsePush reads a profile as Headwater makes them.
func TestParsePush(t *testing.T) {
	var id uint64
	mapping := &profile.Mapping{ID: 1, File: "[kernel.kallsyms]"}
	program := &profile.Mapping{ID: 2, File: "/bin/burn"}
	nothing := &profile.Mapping{ID: 3}
	p := &profile.Profile{
		SampleType: []*profile.ValueType{{Type: "cpu", Unit: "nanoseconds"}}, Period: 10,
		TimeNanos: 5e9, DurationNanos: 1e9, Mapping: []*profile.Mapping{mapping, program, nothing},
	}
	location := func(m *profile.Mapping, addr uint64, name string) *profile.Location {
		id++
		f := &profile.Function{ID: id, Name: name}
		l := &profile.Location{ID: id, Mapping: m, Address: addr, Line: []profile.Line{{Function: f}}}
		p.Function, p.Location = append(p.Function, f), append(p.Location, l)
		return l
	}
	comm := location(nothing, 0, "burn")
	whole := []*profile.Location{location(mapping, 1<<40, "tick"), location(program, 4096, "leaf"),
		location(program, 5000, "main"), comm}
	python := &profile.Mapping{ID: 4, File: "[python 3.11]"}
	p.Mapping = append(p.Mapping, python)
	script := []*profile.Location{whole[1], location(python, 0, "f02"), location(python, 0, "f01"), whole[2], comm}
	cut := []*profile.Location{whole[1], location(nothing, 0, "[25 frames cut: Pyroscope keeps 1,000]"), whole[2], comm}
	broken := []*profile.Location{whole[1], location(nothing, 0, "[incomplete: no_row in burn]"), comm}
	for i, s := range [][]*profile.Location{whole, cut, broken, script} {
		p.Sample = append(p.Sample, &profile.Sample{Location: s, Value: []int64{int64(10 * (i + 1))},
			Label: map[string][]string{"pid": {"77"}}})
	}
	var raw bytes.Buffer
	if err := p.Write(&raw); err != nil {
		t.Fatal(err)
	}
	request := wireMessage{}.bytes(1, wireMessage{}.bytes(1, nil).bytes(2, wireMessage{}.bytes(1, raw.Bytes())))

	stacks, err := parsePush(request)
	if err != nil {
		t.Fatal(err)
	}
	after, before := time.Unix(4, 0), time.Unix(5, 0)
	checkStacks(t, stacks, []stack{
		{comm: "burn", count: 1, frames: 2, pid: 77, after: after, before: before},
		{comm: "burn", count: 2, frames: 2, pid: 77, after: after, before: before},
		{comm: "burn", count: 3, frames: 1, broken: true, reason: "[incomplete: no_row in burn]", pid: 77,
			after: after, before: before},
		{comm: "burn", count: 4, frames: 4, pid: 77, script: []string{"f02", "f01"}, after: after, before: before},
	})
}

func checkStacks(t *testing.T, got, want []stack) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%d stacks, want %d", len(got), len(want))
	}
	for i := range want {
		if !got[i].after.Equal(want[i].after) || !got[i].before.Equal(want[i].before) {
			t.Errorf("stack %d: from %v to %v, want %v to %v", i, got[i].after, got[i].before, want[i].after, want[i].before)
		}
		got[i].after, got[i].before = want[i].after, want[i].before
		if !reflect.DeepEqual(got[i], want[i]) {
			t.Errorf("stack %d: %+v, want %+v", i, got[i], want[i])
		}
	}
}

// TestVerdicts is about which figures reach their targets.
func TestVerdicts(t *testing.T) {
	r := newResults(2)
	for round, v := range [][2]float64{{1, 4}, {30, 100}, {1, 2}} {
		r.addValue("cost", 0, v[0])
		r.addValue("cost", 1, v[1])
		r.addValue("share", 0, 90+float64(round))
	}
	for _, test := range []struct {
		figure
		met, known bool
	}{
		{figure{Key: "cost", Aim: ratio(0.4)}, true, true}, // of 0.25, 0.3 and 0.5
		{figure{Key: "cost", Aim: ratio(0.29)}, false, true},
		{figure{Key: "cost", Aim: atMost(1)}, true, true},
		{figure{Key: "share", Aim: least(91)}, true, true},
		{figure{Key: "share", Aim: least(91.5)}, false, true},
		{figure{Key: "share", Aim: ratio(1)}, false, false},
		{figure{Key: "cost"}, false, false},
		{figure{Key: "none", Aim: least(1)}, false, false},
	} {
		if met, known := r.isMet(test.figure); known != test.known || known && met != test.met {
			t.Errorf("%s %v: met %v, known %v", test.Key, test.Aim, met, known)
		}
	}
}

func TestMostFrequent(t *testing.T) {
	got := mostFrequent(map[string]int{"a": 1, "b": 7, "c": 2, "d": 2, "e": 1, "f": 9})
	if want := "9 f, 7 b, 2 c, 2 d, 1 a"; got != want || strings.Contains(got, "e") {
		t.Errorf("%q, want %q", got, want)
	}
}
