package process

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/headwater/headwater/ebpf/host/procfs"
	"github.com/headwater/headwater/integration/testkit"
)

// TestManyMappingsArePutOff: a process with many mappings is pushed to the store less often, but walks in user space
// know all its mappings.
func TestManyMappingsArePutOff(t *testing.T) {
	const pid, many = 4_000_000, 64 * mappingsPerPause // no process has this PID
	tracker, store := newTracker(t, procfs.FS{Root: t.TempDir()})
	at := func(i int) procfs.Mapping {
		return procfs.Mapping{Start: uint64(i+1) << 13, End: uint64(i+1)<<13 + 4096}
	}
	tracker.Update(func(b *Batch) {
		b.Exec(1, pid, "many")
		for i := range many {
			b.Map(2, pid, at(i))
		}
	})
	if p, _ := store.process(pid); len(p.Mappings) != many {
		t.Fatalf("the store knows %d mappings, want %d at once", len(p.Mappings), many)
	}
	tracker.Update(func(b *Batch) { b.Map(3, pid, at(many)) })
	told := func() bool {
		p, _ := store.process(pid)
		return len(p.Mappings) == many+1
	}
	if told() {
		t.Log("the machine was so slow that the store was told at once")
	}
	if _, ok := tracker.At(pid, 4).mappings.findMapping(at(many).Start); !ok {
		t.Error("a walk in user space does not know the new mapping")
	}
	testkit.Eventually(t, "the store is told", func() bool {
		tracker.Reap(0)
		return told()
	})
}

// TestEndedIsNotTold: a process that has started and ended since the last push is not pushed to the store, but a walk
// in user space knows it.
func TestEndedIsNotTold(t *testing.T) {
	const ended, alive = 4_000_000, 4_000_001 // no process has these PIDs
	tracker, store := newTracker(t, procfs.FS{Root: t.TempDir()})
	m := procfs.Mapping{Start: 0x1000, End: 0x2000}
	tracker.Update(func(b *Batch) {
		for _, pid := range []uint32{ended, alive} {
			b.Exec(1, pid, "short")
			b.Map(2, pid, m)
		}
		b.Exit(3, ended)
	})
	if _, told := store.process(ended); told {
		t.Error("the store was told of a process that had ended")
	}
	if _, told := store.process(alive); !told {
		t.Error("the store was not told of a process that lives")
	}
	if _, ok := tracker.At(ended, 2).mappings.findMapping(m.Start); !ok {
		t.Error("a walk in user space does not know what the process had")
	}
	if gone := tracker.Reap(4); !slices.Equal(gone, []uint32{ended}) {
		t.Errorf("reaped %v", gone)
	}
}

// TestMergeMappings adds mappings with overlaps: the later mappings count, as if each was added by itself.
func TestMergeMappings(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	tracker, _ := newTracker(t, procfs.FS{Root: t.TempDir()})
	for range 300 {
		p, alone := &Process{}, mappings{}
		for i := range random.IntN(40) {
			start := uint64(random.IntN(100))
			m := mapping{start: start, end: start + 1 + uint64(random.IntN(12)), bias: uint64(i)}
			p.added = append(p.added, m)
			alone = alone.overlay(mappings{m}, func(*Executable) {}, func(*Executable) {})
		}
		if tracker.state.mergeMappings(p); !slices.Equal(p.mappings, alone) {
			t.Fatalf("settled\n%v, one by one\n%v", p.mappings, alone)
		}
	}
}
