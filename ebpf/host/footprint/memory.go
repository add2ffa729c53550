package footprint

import (
	"context"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"

	"github.com/headwater/headwater/ebpf/host/procfs"
)

const (
	// gcPercent trades a little CPU time for memory: the heap has some tens of megabytes, much of it allocated for each
	// collection of profiles and dropped after it.
	gcPercent = 50
	// largeHeap is the size of the heap from which gcPercent would leave much garbage. With SmallHeap, garbage
	// collections are more frequent above it.
	largeHeap        = 96 << 20
	largeHeapPercent = 20
	// idleSeconds is the longest time between two releases of the executable's pages without a burst of allocations.
	// Touching a page again costs a minor page fault, see package early.
	idleSeconds = 30
)

// Preference is a choice between CPU time and memory for large heaps.
type Preference int

// The preferences.
const (
	LittleCPU Preference = iota // garbage collections stay as rare as with a small heap, for long-running programs
	SmallHeap                   // collections are more frequent, for programs with a large heap for a short time
)

// ReleaseMemory returns memory to the kernel until ctx is done: garbage after each burst of allocations, such as for a
// profile, and pages of the executable that ran once. It also sets the garbage collector's target, unless GOGC is set.
// It calls report, at most twice, with an error after which the executable's pages stay resident.
func ReleaseMemory(ctx context.Context, prefer Preference, report func(error)) {
	own, err := procfs.OwnPages()
	if err != nil {
		report(err)
	}
	ticks := time.NewTicker(time.Second)
	defer ticks.Stop()
	b := burst{looks: restSeconds}
	percent, given := 0, os.Getenv("GOGC") != ""
	for due := 0; ; due-- {
		now := readHeap()
		if p := prefer.percentOf(now.live); !given && p != percent {
			percent = p
			debug.SetGCPercent(p)
		}
		if b.isOver(now) || due <= 0 {
			if b.isWorth(now) {
				debug.FreeOSMemory()
			}
			if err := procfs.ReleasePages(own); err != nil {
				report(err)
				own = nil
			}
			b.reset(now)
			due = idleSeconds
		}
		select {
		case <-ticks.C:
		case <-ctx.Done():
			return
		}
	}
}

// percentOf returns the garbage collector's target for a heap with the given number of bytes in use.
func (p Preference) percentOf(live uint64) int {
	if p == SmallHeap && live > largeHeap {
		return largeHeapPercent
	}
	return gcPercent
}

// heap holds the number of bytes allocated on the heap so far, and the number in use after the last garbage collection.
type heap struct{ allocated, live uint64 }

func readHeap() heap {
	samples := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}, {Name: "/gc/heap/live:bytes"}}
	metrics.Read(samples)
	return heap{samples[0].Value.Uint64(), samples[1].Value.Uint64()}
}

// burst detects the end of a burst of allocations, the best time to collect garbage.
type burst struct {
	released, before uint64 // bytes allocated at the last release of memory, and at the last look
	most             uint64 // maximum of bytes allocated between two looks since the last release
	looks            int    // number of looks since the last release
}

const (
	// burstBytes is the least garbage that justifies a release, which takes some milliseconds, or longer if more memory
	// is in use.
	burstBytes = 6 << 20
	// burstShare divides the maximum: a burst is over when allocations fall below that.
	burstShare = 2
	// restSeconds is the minimum time between two releases because of bursts. Released memory costs a page fault for
	// each 4 KiB when it is used again, and each round of profiles uses the memory of the previous round.
	restSeconds = 15
)

// isOver reports whether a burst has ended, so that memory should be released. It must be called once a second.
func (b *burst) isOver(now heap) bool {
	lately := now.allocated - b.before
	b.before, b.most, b.looks = now.allocated, max(b.most, lately), b.looks+1
	return b.looks >= restSeconds && b.isWorth(now) && lately < b.most/burstShare
}

// isWorth reports whether there may be much garbage.
func (b *burst) isWorth(now heap) bool { return now.allocated-b.released > max(burstBytes, now.live/2) }

// reset starts again after a release of memory.
func (b *burst) reset(now heap) { *b = burst{released: now.allocated, before: now.allocated} }
