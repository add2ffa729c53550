package heap

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"

	"github.com/headwater/headwater/ebpf/kernel"
	"github.com/headwater/headwater/ebpf/procfs"
)

// Limits of the brake.
const (
	brakeEvery = 500 * time.Millisecond // how often the cost of traps is checked
	// DefaultLimit is the default share of its CPU time that a process may spend on traps.
	DefaultLimit = 0.1

	brakeLeast = 0.02                  // of a CPU: a process whose traps cost less is never paused
	usualTrap  = 20 * time.Microsecond // assumed where it cannot be measured: as in virtual machines
	firstPause = 10 * time.Second      // each further one is twice as long, ...
	longPause  = 10 * time.Minute      // ... up to this
	// steppedShare is how many traps at instructions that the kernel emulates take as long as one at an instruction
	// that the CPU single-steps.
	steppedShare = 4
)

// brake pauses the sampling of processes that traps slow down too much. The zero value pauses none.
type brake struct {
	limit   float64       // share of a process's CPU time that traps may take; 0 means any
	stepped time.Duration // time of a trap at a single-stepped instruction
	looked  time.Time
	last    map[uint32]spent  // at the last look, by PID
	paused  map[uint32]*pause // by PID
}

// spent holds the traps and the CPU time of a process so far.
type spent struct {
	traps kernel.HeapTraps
	cpu   time.Duration
}

// pause is the time in which a process is not sampled.
type pause struct {
	until  time.Time
	length time.Duration
	share  float64 // of the process's CPU time that traps took
}

func newBrake() brake {
	return brake{last: map[uint32]spent{}, paused: map[uint32]*pause{}}
}

// holds reports whether a process is paused.
func (b *brake) holds(pid uint32, now time.Time) bool {
	p := b.paused[pid]
	return p != nil && now.Before(p.until)
}

// ends reports whether a pause has ended since the last look.
func (b *brake) ends(now time.Time) bool {
	for _, p := range b.paused {
		if p.until.After(b.looked) && !p.until.After(now) {
			return true
		}
	}
	return false
}

// look pauses the processes in which traps took more than the limit of the CPU time since the last look, and returns
// them. cpuTime returns the CPU time of a process so far, or an error if it has ended.
func (b *brake) look(
	now time.Time, traps map[uint32]kernel.HeapTraps, cpuTime func(pid uint32) (time.Duration, error),
) (slowed []uint32) {
	interval := now.Sub(b.looked)
	b.looked = now
	last := b.last
	b.last = map[uint32]spent{}
	for pid, t := range traps {
		before, known := last[pid]
		if known && before.traps == t {
			b.last[pid] = before
			continue
		}
		cpu, err := cpuTime(pid)
		if err != nil {
			continue
		}
		s := spent{t, cpu}
		b.last[pid] = s
		began := t.Emulated < before.traps.Emulated || t.Stepped < before.traps.Stepped // the counters restarted
		if !known || began || b.holds(pid, now) {
			continue
		}
		cost := time.Duration(t.Stepped-before.traps.Stepped)*b.stepped +
			time.Duration(t.Emulated-before.traps.Emulated)*b.stepped/steppedShare
		share := float64(cost) / float64(max(s.cpu-before.cpu, 1))
		if share > b.limit && float64(cost) > brakeLeast*float64(interval) {
			b.pause(pid, min(share, 1), now)
			slowed = append(slowed, pid)
		}
	}
	return slowed
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

// all returns the processes that are paused, by PID.
func (b *brake) all(now time.Time) (out []Paused) {
	for _, pid := range slices.Sorted(maps.Keys(b.paused)) {
		if p := b.paused[pid]; b.holds(pid, now) {
			out = append(out, Paused{pid, p.share, p.until})
		}
	}
	return out
}

// trapped is probed to measure the cost of a trap. The CPU single-steps its only instruction.
//
//go:noinline
func trapped() {}

// measureTrap returns how long a trap at a single-stepped instruction takes, measured by calls of a function of this
// program.
func measureTrap(k *kernel.Heap, self uint32) (time.Duration, error) {
	pc := uint64(reflect.ValueOf(trapped).Pointer())
	mappings, err := procfs.Default.ExecMappings(self)
	if err != nil {
		return 0, err
	}
	i := slices.IndexFunc(mappings, func(m procfs.Mapping) bool { return pc >= m.Start && pc < m.End })
	if i < 0 {
		return 0, fmt.Errorf("no mapping has the code at %#x", pc)
	}
	m := mappings[i]
	function := kernel.HeapFunction{Name: "trapped", Call: kernel.HeapFree, Offset: pc - m.Start + m.Offset}
	probes, err := k.Attach(procfs.Default.MapFilePath(self, m.Start, m.End), []kernel.HeapFunction{function}, self)
	if err != nil {
		return 0, err
	}
	least := time.Duration(1<<63 - 1)
	for range 4 { // other work of the machine makes some runs longer
		const calls = 16
		began := time.Now()
		for range calls {
			trapped()
		}
		least = min(least, time.Since(began)/calls)
	}
	return least, probes.Close()
}
