package process

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/headwater/headwater/ebpf/host/filework"
	"github.com/headwater/headwater/ebpf/host/procfs"
)

// shortLived returns a function that reports the life of a program that its parent starts by vfork, and that maps a few
// known files. The program has ended when it is reaped, or before the store gets it.
func shortLived(tb testing.TB) func(endsAtOnce bool) {
	tb.Helper()
	dir := tb.TempDir()
	tracker := NewTracker(newMemoryStore(), procfs.FS{Root: dir}, &filework.Pool{}, nil)
	tb.Cleanup(tracker.Close)
	self, err := os.Executable()
	if err != nil {
		tb.Fatal(err)
	}
	program, err := os.ReadFile(self)
	if err != nil {
		tb.Fatal(err)
	}
	var files []procfs.Mapping
	for i, name := range []string{"program", "ld.so", "libc.so"} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, program, 0o755); err != nil {
			tb.Fatal(err)
		}
		files = append(files, mappedAs(tb, path, textAt+uint64(i)<<32))
	}
	const parent, child = 10, 20
	now := uint64(1)
	started := func(b *Batch, pid uint32) {
		b.Exec(now, pid, "program")
		for _, m := range files {
			b.Map(now, pid, m)
		}
	}
	tracker.Update(func(b *Batch) { started(b, parent) })
	return func(endsAtOnce bool) {
		now += 10
		tracker.Update(func(b *Batch) {
			b.Fork(now, parent, child)
			started(b, child)
			if endsAtOnce {
				b.Exit(now, child)
			}
		})
		if !endsAtOnce {
			tracker.Update(func(b *Batch) { b.Exit(now, child) })
		}
		tracker.Reap(now + 1)
	}
}

// TestShortLivedAllocate: hundreds of programs may start a second.
func TestShortLivedAllocate(t *testing.T) {
	run := shortLived(t)
	for endsAtOnce, most := range map[bool]float64{false: 11, true: 9} {
		if n := testing.AllocsPerRun(1000, func() { run(endsAtOnce) }); n > most {
			t.Errorf("%v allocations for a program that is gone at once: %v, want %v at most", n, endsAtOnce, most)
		}
	}
}

func BenchmarkShortLived(b *testing.B) {
	for name, endsAtOnce := range map[string]bool{"sampled": false, "unseen": true} {
		b.Run(name, func(b *testing.B) {
			run := shortLived(b)
			b.ReportAllocs()
			for b.Loop() {
				run(endsAtOnce)
			}
		})
	}
}
