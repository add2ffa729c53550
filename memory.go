package main

import (
	"bufio"
	"fmt"
	"os"
	"runtime/metrics"
	"strings"
	"syscall"
)

// region is a range of addresses.
type region struct{ start, end uintptr }

// ownPages returns where our own executable is mapped to be read or run only.
func ownPages() ([]region, error) {
	maps, err := os.Open("/proc/self/maps")
	if err != nil {
		return nil, err
	}
	defer maps.Close()
	exe, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return nil, err
	}
	var own []region
	lines := bufio.NewScanner(maps)
	for lines.Scan() {
		var r region
		var permissions string
		// start-end rw-p offset ... path: proc(5)
		if _, err := fmt.Sscanf(lines.Text(), "%x-%x %s", &r.start, &r.end, &permissions); err != nil {
			return nil, fmt.Errorf("/proc/self/maps: %w", err)
		}
		readOnly := strings.HasPrefix(permissions, "r-") && strings.HasSuffix(permissions, "p")
		if readOnly && strings.HasSuffix(lines.Text(), " "+exe) {
			own = append(own, r)
		}
	}
	return own, lines.Err()
}

// dropPages gives back the pages of our own executable that are resident: the
// kernel maps those that are needed again from its page cache. Most were touched by
// initializers alone, or once in a while; those of the Kubernetes client touch 20 MB.
// Nothing is lost if it fails.
func dropPages(own []region) error {
	for _, r := range own {
		if _, _, errno := syscall.Syscall(syscall.SYS_MADVISE, r.start, r.end-r.start, syscall.MADV_DONTNEED); errno != 0 {
			return fmt.Errorf("madvise: %w", errno)
		}
	}
	return nil
}

// heap is how the heap does: bytes that were ever allocated of it, and that were in
// use when garbage was last collected.
type heap struct{ allocated, live uint64 }

func readHeap() heap {
	samples := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}, {Name: "/gc/heap/live:bytes"}}
	metrics.Read(samples)
	return heap{samples[0].Value.Uint64(), samples[1].Value.Uint64()}
}

// burst tells when a burst of allocations is over, as a profile is made: garbage is to
// be collected then, and not when it happens to be the next time.
type burst struct {
	released, before uint64 // bytes allocated when memory was last given back, and at the last look
	most             uint64 // allocated between two looks since then
}

const (
	// burstBytes is how much has to be allocated for it to be worth to give memory back,
	// which takes some milliseconds, and more where more is in use.
	burstBytes = 6 << 20
	// burstShare is the part of the most that is still allocated when a burst is over.
	burstShare = 2
)

// isOver is to be asked once a second.
func (b *burst) isOver(now heap) bool {
	lately := now.allocated - b.before
	b.before, b.most = now.allocated, max(b.most, lately)
	return b.isWorth(now) && lately < b.most/burstShare
}

// isWorth reports whether there may be much garbage.
func (b *burst) isWorth(now heap) bool { return now.allocated-b.released > max(burstBytes, now.live/2) }

// reset notes that memory is given back.
func (b *burst) reset(now heap) { b.released, b.before, b.most = now.allocated, now.allocated, 0 }
