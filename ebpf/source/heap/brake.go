package heap

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"
	"unsafe"

	"github.com/headwater/headwater/ebpf/host/procfs"
	"github.com/headwater/headwater/ebpf/kernel"
)

// Limits of the brake.
const (
	brakeEvery = 100 * time.Millisecond // how often the cost of traps is checked
	// DefaultLimit is the default share of its CPU time that a process may spend on traps.
	DefaultLimit = 0.1

	brakeLeast = 0.02                  // of a CPU: a process whose traps cost less is never paused
	brakeBurst = 50 * time.Millisecond // time of traps beyond the limit after which a process is paused
	firstPause = 10 * time.Second      // each further one is twice as long, ...
	longPause  = 10 * time.Minute      // ... up to this
)

// trapCost is how long a trap takes.
type trapCost struct {
	emulated time.Duration // at an instruction that the kernel emulates
	stepped  time.Duration // at an instruction that the CPU single-steps
}

// usualTrap is assumed where the cost cannot be measured: that in virtual machines.
var usualTrap = trapCost{5 * time.Microsecond, 20 * time.Microsecond}

// costOf returns how long some traps take.
func (c trapCost) costOf(t kernel.HeapTraps) time.Duration {
	return time.Duration(t.Emulated)*c.emulated + time.Duration(t.Stepped)*c.stepped
}

// brake pauses the sampling of processes that traps slow down too much. Whatever a process does, its traps take no more
// than the limit of its CPU time, brakeBurst, and what they take in the time of a look and of removing the probes. The
// zero value pauses none.
type brake struct {
	limit  float64 // share of a process's CPU time that traps may take; 0 means any
	trap   trapCost
	looked time.Time
	last   map[uint32]spent  // at the last look, by PID
	paused map[uint32]*pause // by PID
}

// spent holds the traps and the CPU time of a process so far.
type spent struct {
	traps kernel.HeapTraps
	cpu   time.Duration // when there were more than a few traps; 0 if that was never so
	over  time.Duration // time of traps beyond the limit that the process has not made up for
}

// pause is the time in which a process is not sampled.
type pause struct {
	until  time.Time
	length time.Duration
	share  float64 // of the process's CPU time that traps took
}

func newBrake(now time.Time) brake {
	return brake{looked: now, last: map[uint32]spent{}, paused: map[uint32]*pause{}}
}

// holds reports whether a process is paused.
func (b *brake) holds(pid uint32, now time.Time) bool {
	p := b.paused[pid]
	return p != nil && now.Before(p.until)
}

// endsPause reports whether a pause has ended since the last look.
func (b *brake) endsPause(now time.Time) bool {
	for _, p := range b.paused {
		if p.until.After(b.looked) && !p.until.After(now) {
			return true
		}
	}
	return false
}

// lookAtTraps pauses the processes whose traps have taken brakeBurst more than the limit of their CPU time, and returns
// them. cpuTime returns the CPU time of a process so far, or an error if it has ended.
func (b *brake) lookAtTraps(
	now time.Time, traps map[uint32]kernel.HeapTraps, cpuTime func(pid uint32) (time.Duration, error),
) (slowed []uint32) {
	interval := now.Sub(b.looked)
	b.looked = now
	last := b.last
	b.last = make(map[uint32]spent, len(traps))
	least := time.Duration(brakeLeast * float64(interval))
	for pid, t := range traps {
		before := last[pid]
		s := spent{t, before.cpu, before.over}
		b.last[pid] = s
		cost := b.trap.costOf(since(before.traps, t))
		if cost <= least && s.over == 0 || cost == 0 || b.holds(pid, now) {
			continue
		}
		var err error
		if s.cpu, err = cpuTime(pid); err != nil {
			continue
		}
		used := s.cpu - before.cpu
		if before.cpu > 0 {
			s.over = max(0, s.over+cost-max(least, time.Duration(b.limit*float64(used))))
		}
		if s.over > brakeBurst {
			b.pause(pid, min(1, float64(cost)/float64(max(used, 1))), now)
			slowed, s.over = append(slowed, pid), 0
		}
		b.last[pid] = s
	}
	return slowed
}

// since returns the traps after the last look: the counters may have restarted.
func since(before, now kernel.HeapTraps) kernel.HeapTraps {
	if now.Emulated < before.Emulated || now.Stepped < before.Stepped {
		return now
	}
	return kernel.HeapTraps{Emulated: now.Emulated - before.Emulated, Stepped: now.Stepped - before.Stepped}
}

// pause pauses a process, for twice as long as the last time.
func (b *brake) pause(pid uint32, share float64, now time.Time) {
	length := firstPause
	if before := b.paused[pid]; before != nil && now.Sub(before.until) < before.length {
		length = min(2*before.length, longPause)
	}
	b.paused[pid] = &pause{now.Add(length), length, share}
}

// forget forgets the pauses of processes that have ended, and pauses that are long over.
func (b *brake) forget(now time.Time, lives func(pid uint32) bool) {
	for pid, p := range b.paused {
		if !lives(pid) || now.Sub(p.until) > p.length {
			delete(b.paused, pid)
		}
	}
}

// Paused is a process whose memory is not sampled for a while, because probes slow it down too much.
type Paused struct {
	PID   uint32
	Share float64   // of its CPU time that the traps of probes took, up to 1
	Until time.Time // when it is sampled again
}

func (p Paused) String() string {
	return fmt.Sprintf("process %d: probes took %.0f %% of its CPU time", p.PID, 100*p.Share)
}

// allPaused returns the processes that are paused, by PID.
func (b *brake) allPaused(now time.Time) (out []Paused) {
	for _, pid := range slices.Sorted(maps.Keys(b.paused)) {
		if p := b.paused[pid]; b.holds(pid, now) {
			out = append(out, Paused{pid, p.share, p.until})
		}
	}
	return out
}

// steppedTrap is probed to measure the cost of a trap. The CPU single-steps its only instruction.
//
//go:noinline
func steppedTrap() {}

// emulatedTrap begins with a push, which the kernel emulates.
//
//go:noinline
//go:nosplit
func emulatedTrap() { nothing() }

//go:noinline
//go:nosplit
func nothing() {}

// measureTraps returns how long traps take, measured by calls of functions of this program.
func measureTraps(k *kernel.Heap, self uint32) (cost trapCost, err error) {
	if cost.stepped, err = measureTrap(k, self, steppedTrap); err != nil {
		return cost, err
	}
	cost.emulated = cost.stepped // on machines where heap takes all instructions for single-stepped ones
	if pc := reflect.ValueOf(emulatedTrap).UnsafePointer(); emulated(unsafe.Slice((*byte)(pc), 2)) {
		var took time.Duration
		took, err = measureTrap(k, self, emulatedTrap)
		cost.emulated = min(took, cost.stepped)
	}
	return cost, err
}

// measureTrap returns how long a call takes whose function has a probe at its start.
func measureTrap(k *kernel.Heap, self uint32, call func()) (time.Duration, error) {
	pc := uint64(reflect.ValueOf(call).Pointer())
	mappings, err := procfs.Default.ExecMappings(self)
	if err != nil {
		return 0, err
	}
	i := slices.IndexFunc(mappings, func(m procfs.Mapping) bool { return pc >= m.Start && pc < m.End })
	if i < 0 {
		return 0, fmt.Errorf("no mapping has the code at %#x", pc)
	}
	m := mappings[i]
	function := kernel.HeapFunction{Name: "trap", Call: kernel.HeapFree, Offset: pc - m.Start + m.Offset}
	probes, err := k.Attach(procfs.Default.MapFilePath(self, m.Start, m.End), []kernel.HeapFunction{function}, self)
	if err != nil {
		return 0, err
	}
	return timeOf(call), probes.Close()
}

// timeOf returns how long a call takes that has a trap.
func timeOf(call func()) time.Duration {
	least := time.Duration(1<<63 - 1)
	for range 4 { // other work of the machine makes some runs longer
		const calls = 16
		began := time.Now()
		for range calls {
			call()
		}
		least = min(least, time.Since(began)/calls)
	}
	return least
}
