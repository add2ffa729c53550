package kernel

import (
	"fmt"
	"slices"

	"github.com/cilium/ebpf"

	"github.com/headwater/headwater/ebpf/common/clock"
)

// walks holds the walks that BPF made at probes until the hits are read, see bpf/sample/hit.h. They are of processes
// with a language runtime.
type walks struct {
	rings  *sampleRings
	reader *sampleReader
	found  map[threadOnCPU][]walk // in order of time, as the hits of a CPU are read
}

// threadOnCPU is a thread on one CPU, where its walks and hits are in the same order.
type threadOnCPU struct{ tid, cpu uint32 }

// walk is a walk at a probe.
type walk struct {
	*Sample
	probes []int // probes whose hits have used it
}

// loadWalking loads the programs of another object, which walk with the tables of the Profiler.
func (p *Profiler) loadWalking(spec *ebpf.CollectionSpec, objects any) error {
	if _, err := sizeMaps(spec); err != nil {
		return err
	}
	const rememberNone = 0 // row changes are not reported to this object
	if err := spec.Variables[profilerVarRowChanges].Set(uint32(rememberNone)); err != nil {
		return err
	}
	err := spec.LoadAndAssign(objects, &ebpf.CollectionOptions{MapReplacements: map[string]*ebpf.Map{
		profilerMapSlabs: p.objects.Slabs, profilerMapProcesses: p.objects.Processes,
		profilerMapInterpreters: p.objects.Interpreters, profilerMapPrograms: p.objects.Programs,
		profilerMapKnownCodes: p.objects.KnownCodes,
	}})
	if err != nil {
		return fmt.Errorf("load BPF programs: %w", err)
	}
	return nil
}

// openWalks maps the rings of walks.
func openWalks(rings *ebpf.Map) (*walks, error) {
	w := &walks{found: map[threadOnCPU][]walk{}}
	var err error
	if w.rings, err = openRings(rings, int(rings.MaxEntries())); err != nil {
		return nil, err
	}
	w.reader = newSampleReader(nil, w.rings)
	return w, nil
}

// readRings takes all walks out of the rings.
func (w *walks) readRings() error {
	err := w.reader.drain(func(s *Sample) {
		kept := &Sample{}
		kept.CopyFrom(s)
		of := threadOnCPU{s.TID, s.CPU}
		w.found[of] = append(w.found[of], walk{Sample: kept})
	})
	if err != nil {
		return fmt.Errorf("walks at probes: %w", err)
	}
	return nil
}

// longest is the longest time from a walk to its hit.
const longest = 1_000_000 // ns

// walkOf returns the walk of a hit, the last one that ended before it, or nil if there is none. Each walk is for one
// hit of a probe only.
func (w *walks) walkOf(h *ProbeHit) (*Sample, error) {
	return w.findWalk(threadOnCPU{h.TID, h.CPU}, func(of *walk) bool {
		if of.Time > h.Time || h.Time-of.Time > longest || slices.Contains(of.probes, h.Probe) {
			return false
		}
		of.probes = append(of.probes, h.Probe)
		return true
	})
}

// walkAt returns the walk with the same time as the hit, nil if there is none.
func (w *walks) walkAt(h *ProbeHit) (*Sample, error) {
	return w.findWalk(threadOnCPU{h.TID, h.CPU}, func(of *walk) bool { return of.Time == h.Time })
}

// findWalk returns the last wanted walk of a thread, and drops the walks before it. A walk is written before its hit,
// so it is available when the hit is read.
func (w *walks) findWalk(of threadOnCPU, wanted func(*walk) bool) (*Sample, error) {
	for read := false; ; read = true {
		found := w.found[of]
		for at, candidate := range slices.Backward(found) {
			if wanted(&found[at]) {
				w.found[of] = found[at:]
				return candidate.Sample, nil
			}
		}
		if read {
			return nil, nil
		}
		if err := w.readRings(); err != nil {
			return nil, err
		}
	}
}

// reading calls f, which reads the available hits, and then drops old walks: their hits did not fit into a buffer.
func (w *walks) reading(f func() error) error {
	begin := clock.Monotonic()
	err := f()
	for of, found := range w.found {
		found = slices.DeleteFunc(found, func(s walk) bool { return s.Time+longest < begin })
		if w.found[of] = found; len(found) == 0 {
			delete(w.found, of)
		}
	}
	return err
}

func (w *walks) close() error { return w.rings.close() }
