package record

import (
	"slices"
	"sync"
	"time"

	"github.com/headwater/headwater/ebpf/kernel"
	"github.com/headwater/headwater/ebpf/profile"
	"github.com/headwater/headwater/ebpf/sampler"
	"github.com/headwater/headwater/ebpf/wait"
)

// Thread is what a thread does at one moment.
type Thread struct {
	TID   uint32
	Name  string
	State kernel.ThreadState
	CPU   uint32        // where it runs, or has run last
	Wait  string        // what it waits for, see wait.Of; "" if it does not, or that is not known
	Off   time.Duration // for how long it has been on no CPU; negative: not known
	In    string        // the innermost function of its kernel stack, "" of one that runs
}

// threads looks at threads when somebody asks for them first.
type threads struct {
	mu     sync.Mutex
	closed bool
	kernel *kernel.Threads
}

func (t *threads) open() (*kernel.Threads, error) {
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

// Threads returns what the threads of a process do now, without stopping it; none if it has
// ended. It may be called concurrently, before Close.
func (r *Recorder) Threads(pid uint32) (out []Thread, err error) {
	const patience = 100 * time.Millisecond // the kernel's names are there
	from, err := r.threads.open()
	if err != nil {
		return nil, err
	}
	var all []kernel.Thread
	var stacks []*sampler.Sample
	err = from.Read(pid, 0, func(t *kernel.Thread) {
		if t.State != kernel.Ended {
			stacks = append(stacks, &sampler.Sample{Sample: &kernel.Sample{Kernel: slices.Clone(t.Kernel)}})
			all = append(all, *t)
		}
	})
	if err != nil {
		return nil, err
	}
	for i, named := range r.builder.Name(stacks, patience) {
		out = append(out, newThread(&all[i], &named))
	}
	return out, nil
}

// newThread describes a thread by the names of its kernel stack.
func newThread(t *kernel.Thread, stack *profile.Named) Thread {
	var functions []string
	for _, l := range stack.Kernel {
		for _, line := range l.Lines {
			functions = append(functions, line.Function)
		}
	}
	out := Thread{TID: t.TID, Name: t.Comm, State: t.State, CPU: t.CPU, Wait: wait.Of(t, functions), Off: t.Off}
	switch {
	case t.State == kernel.Running:
		out.Off = 0
	case len(functions) > 0:
		out.In = functions[0]
	}
	return out
}
