package kernel

import (
	"reflect"
	"testing"
)

// The walk of a hit is the last one of its thread and CPU that ended recently before it, and that no other hit of its
// probe has used. Earlier walks are forgotten.
func TestWalkOfHit(t *testing.T) {
	const here, elsewhere = 1, 2 // CPUs
	w := &walks{reader: newSampleReader(nil, &sampleRings{}), found: map[threadOnCPU][]walk{}}
	for _, s := range []Sample{
		{TID: 7, CPU: here, Time: 100}, {TID: 7, CPU: here, Time: 200}, {TID: 7, CPU: here, Time: 300},
		{TID: 7, CPU: elsewhere, Time: 250}, {TID: 8, CPU: here, Time: 210},
	} {
		of := threadOnCPU{s.TID, s.CPU}
		w.found[of] = append(w.found[of], walk{Sample: &s})
	}
	for _, hit := range []struct {
		cpu   uint32
		probe int
		time  uint64
		want  uint64 // time of the walk; 0 if none
	}{
		{here, 1, 99, 0},
		{here, 1, 220, 200},
		{here, 2, 221, 200}, // another probe at the same place
		{here, 1, 230, 0},   // its own is missing, and the earlier hit used the last one
		{elsewhere, 1, 230, 0},
		{elsewhere, 1, 260, 250},
		{here, 3, 199, 0},
		{here, 1, 300 + longest, 300},
		{here, 2, 301 + longest, 0},
	} {
		h := &ProbeHit{Probe: hit.probe, PerfSnapshot: PerfSnapshot{TID: 7, CPU: hit.cpu, Time: hit.time}}
		got, err := w.walkOf(h)
		if err != nil {
			t.Fatal(err)
		}
		if got == nil {
			got = &Sample{}
		}
		if got.Time != hit.want {
			t.Errorf("hit of probe %d at %d on CPU %d: walk of %d, want %d", hit.probe, hit.time, hit.cpu, got.Time, hit.want)
		}
	}
	exact := &ProbeHit{PerfSnapshot: PerfSnapshot{TID: 8, CPU: here, Time: 210}}
	if got, err := w.walkAt(exact); err != nil || got == nil || got.Time != 210 {
		t.Errorf("walk at 210: %+v, %v", got, err)
	}
	exact.Time++
	if got, err := w.walkAt(exact); err != nil || got != nil {
		t.Errorf("walk at 211: %+v, %v", got, err)
	}
	if err := w.reading(func() error { return nil }); err != nil || len(w.found) > 0 {
		t.Errorf("kept %v: %v, %v", reflect.ValueOf(w.found).MapKeys(), w.found, err)
	}
}
