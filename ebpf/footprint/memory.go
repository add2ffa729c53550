package footprint

import (
	"context"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"

	"github.com/headwater/headwater/ebpf/procfs"
)

const (
	// gcPercent trades a little CPU for memory: the heap has a few ten megabytes, much
	// of which is allocated for each collection of profiles and dropped after it.
	gcPercent = 50
	// largeHeap is where garbage of gcPercent would be much memory. With SmallHeap collections come more often from there
	// on.
	largeHeap        = 96 << 20
	largeHeapPercent = 20
	// idleSeconds is the longest time between two releases of the executable's pages
	// while nothing is allocated. Touching them again costs a minor page fault for each,
	// see package early.
	idleSeconds = 30
)

// Preference says what large heaps cost.
type Preference int

// The preferences.
const (
	LittleCPU Preference = iota // garbage collections stay as rare as with a small heap: for what runs for ever
	SmallHeap                   // collections come more often: for what holds much for a while
)

// ReleaseMemory returns memory to the kernel until ctx ends: garbage after each burst of
// allocations, such as those for a profile, and pages of the executable that ran once.
// It also sets the garbage collector's target, unless GOGC is set. It calls report
// with an error after which the executable's pages stay resident, at most twice.
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

// percentOf is the garbage collector's target for a heap of which that many bytes are in use.
func (p Preference) percentOf(live uint64) int {
	if p == SmallHeap && live > largeHeap {
		return largeHeapPercent
	}
	return gcPercent
}

// heap has the bytes that were ever allocated on the heap, and those that were in use
// after the last garbage collection.
type heap struct{ allocated, live uint64 }

func readHeap() heap {
	samples := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}, {Name: "/gc/heap/live:bytes"}}
	metrics.Read(samples)
	return heap{samples[0].Value.Uint64(), samples[1].Value.Uint64()}
}

// burst finds the end of a burst of allocations: garbage should be collected then,
// and not at some later time.
type burst struct {
	released, before uint64 // bytes allocated when memory was last released, and at the last look
	most             uint64 // bytes allocated between two looks, the maximum since then
	looks            int    // since then
}

const (
	// burstBytes is the least garbage that is worth a release, which takes some
	// milliseconds, and more where more is in use.
	burstBytes = 6 << 20
	// burstShare is the part of the maximum below which a burst is over.
	burstShare = 2
	// restSeconds is the least time between two releases because of bursts. What is given back costs a page fault for
	// each 4 KiB when it is used again, and one round of profiles uses what the round before it did.
	restSeconds = 15
)

// isOver reports whether memory should be released, as a burst has ended. It is called once a second.
func (b *burst) isOver(now heap) bool {
	lately := now.allocated - b.before
	b.before, b.most, b.looks = now.allocated, max(b.most, lately), b.looks+1
	return b.looks >= restSeconds && b.isWorth(now) && lately < b.most/burstShare
}

// isWorth reports whether there may be much garbage.
func (b *burst) isWorth(now heap) bool { return now.allocated-b.released > max(burstBytes, now.live/2) }

// reset notes that memory is released.
func (b *burst) reset(now heap) { *b = burst{released: now.allocated, before: now.allocated} }
