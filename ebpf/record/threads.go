package record

import (
	"encoding/binary"
	"slices"
	"sync"
	"time"

	"github.com/headwater/headwater/ebpf/kernel"
	"github.com/headwater/headwater/ebpf/profile"
	"github.com/headwater/headwater/ebpf/sampler"
	"github.com/headwater/headwater/ebpf/source/wait"
	"github.com/headwater/headwater/ebpf/unwind"
)

// Thread is the state of a thread at one moment.
type Thread struct {
	PID   uint32
	TID   uint32
	Name  string
	State kernel.ThreadState
	CPU   uint32        // the CPU that it runs on, or ran on last
	Wait  string        // the event that it waits for, see wait.Of; "" if it does not wait, or if the event is unknown
	Off   time.Duration // time since it left the CPU; negative if unknown
	In    string        // innermost function of its kernel stack, "" if it runs
}

// threads opens the kernel's thread iterator at the first call.
type threads struct {
	mu     sync.Mutex
	closed bool
	kernel *kernel.Threads
}

func (t *threads) openThreads() (*kernel.Threads, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return nil, errClosed
	}
	if t.kernel != nil {
		return t.kernel, nil
	}
	var err error
	t.kernel, err = kernel.OpenThreads()
	return t.kernel, err
}

func (t *threads) close() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = true
	if t.kernel == nil {
		return nil
	}
	return t.kernel.Close()
}

// Threads returns the current state of the threads of a process, without stopping it, or no threads if it has ended.
// With pid 0 it returns the threads of all recorded processes, except kernel threads that wait for work. It may be
// called concurrently, before Close.
func (r *Recorder) Threads(pid uint32) (out []Thread, err error) {
	const patience = 100 * time.Millisecond // kernel symbols are already read
	from, err := r.threads.openThreads()
	if err != nil {
		return nil, err
	}
	var all []kernel.Thread
	var at []int // by thread, index of its stack in stacks
	var stacks []*sampler.Sample
	places := map[string]int{}
	err = from.Read(pid, 0, func(t *kernel.Thread) {
		if t.State == kernel.Ended || pid == 0 && !r.waits(t) {
			return
		}
		key := stackKey(t.Kernel)
		place, ok := places[key]
		if !ok {
			place = len(stacks)
			places[key] = place
			stacks = append(stacks, &sampler.Sample{Sample: &kernel.Sample{Kernel: slices.Clone(t.Kernel)}})
		}
		all, at = append(all, *t), append(at, place)
	})
	if err != nil {
		return nil, err
	}
	named := r.collector.Profiles.Name(stacks, patience)
	for i := range all {
		out = append(out, newThread(&all[i], &named[at[i]]))
	}
	return out, nil
}

// stackKey returns a key that is equal for equal stacks.
func stackKey(addresses []uint64) string {
	key := make([]byte, 0, 8*len(addresses))
	for _, a := range addresses {
		key = binary.NativeEndian.AppendUint64(key, a)
	}
	return string(key)
}

// waits reports whether a thread is recorded, and is not a kernel thread waiting for work.
func (r *Recorder) waits(t *kernel.Thread) bool {
	if t.Outcome == unwind.KernelThread && (t.State == kernel.Sleeping || t.State == kernel.Idle) {
		return false
	}
	return r.selected.hasProcess(t.PID) &&
		r.selected.hasSample(&kernel.Sample{PID: t.PID, TID: t.TID, CPU: t.CPU, Time: t.Time})
}

// newThread returns the state of a thread, given the names of its kernel stack.
func newThread(t *kernel.Thread, stack *profile.Named) Thread {
	var functions []string
	for _, l := range stack.Kernel {
		for _, line := range l.Lines {
			functions = append(functions, line.Function)
		}
	}
	out := Thread{
		PID: t.PID, TID: t.TID, Name: t.Comm, State: t.State, CPU: t.CPU, Wait: wait.Of(t, functions), Off: t.Off,
	}
	switch {
	case t.State == kernel.Running:
		out.Off = 0
	case len(functions) > 0:
		out.In = functions[0]
	}
	return out
}
