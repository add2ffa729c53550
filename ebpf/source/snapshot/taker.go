package snapshot

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/headwater/headwater/ebpf/kernel"
	"github.com/headwater/headwater/ebpf/process/target"
	"github.com/headwater/headwater/ebpf/sampler"
)

const (
	// clockRate is the rate at which running threads are sampled, in Hz.
	clockRate = 997
	// clockInterval is how long samples stay in the kernel.
	clockInterval = 5 * time.Millisecond
	// tableBytes is the limit of the memory for unwind tables in the kernel.
	tableBytes = 64 << 20
	// runtimePatience is how long to wait for language runtimes that are being read.
	runtimePatience = 5 * time.Second
	// readPatience is how long to wait for the memory of the process, and for each of its files. Stacks lack callers or
	// functions after that, which takes longer than a second on a host whose CPUs or disks are busy.
	readPatience = 5 * time.Second
	// clockPatience is how long to wait for running threads.
	clockPatience = 300 * time.Millisecond
)

// Taker takes snapshots of one process.
type Taker struct {
	pid     uint32
	threads *kernel.Threads
	sampler *sampler.Sampler
	clock   sync.Once // starts the CPU clock
	stop    context.CancelFunc
	ended   chan error // of the sampler's Run; nil if it was not started

	mu     sync.Mutex
	wanted map[uint32]*Stack // by TID: threads that are not sampled yet
	got    chan struct{}     // a wanted thread was sampled
}

// Open prepares for snapshots of a process. It returns a *kernel.PermissionError when this process lacks capabilities.
// Close the Taker after use.
func Open(pid uint32) (*Taker, error) {
	t := &Taker{pid: pid, got: make(chan struct{}, 1)}
	var err error
	if t.threads, err = kernel.OpenThreads(); err != nil {
		return nil, err
	}
	t.sampler, err = sampler.Open(sampler.Options{
		TableBytes: tableBytes, Interval: clockInterval, Only: pid, Patience: readPatience,
		Target: func(of uint32) (*target.Target, bool) { return nil, of == pid },
	})
	if err != nil {
		return nil, errors.Join(err, t.threads.Close())
	}
	t.sampler.AwaitRuntimes(pid, runtimePatience)
	return t, nil
}

// Sampler returns the sampler, which knows the executables of the frames.
func (t *Taker) Sampler() *sampler.Sampler { return t.sampler }

// Close releases everything.
func (t *Taker) Close() error {
	var err error
	if t.ended != nil {
		err = t.sampler.StopSampling()
		t.stop()
		err = errors.Join(err, <-t.ended)
	}
	return errors.Join(err, t.sampler.Close(), t.threads.Close())
}

// Take returns the stacks of all threads of the process, or with a tid only of that thread, in order of their IDs. The
// caller owns them. The error is ErrGone if there is no thread.
func (t *Taker) Take(ctx context.Context, tid uint32) ([]*Stack, error) {
	stacks, err := takeBlocked(ctx, t.threads, t.sampler, t.pid, tid)
	if err != nil {
		return nil, err
	}
	if err := t.takeRunning(ctx, stacks); err != nil {
		return nil, err
	}
	return t.present(stacks, tid)
}

// takeRunning samples the threads that could not be read.
func (t *Taker) takeRunning(ctx context.Context, stacks []*Stack) error {
	wanted := map[uint32]*Stack{}
	for _, s := range stacks {
		if s.Sample == nil || s.Torn {
			wanted[s.TID] = s
		}
	}
	if len(wanted) == 0 {
		return nil
	}
	t.wantSamples(wanted)
	defer t.wantSamples(nil)
	if err := t.startClock(); err != nil {
		return err
	}
	patience := time.NewTimer(clockPatience)
	defer patience.Stop()
	for t.wants() > 0 {
		select {
		case <-t.got:
		case <-patience.C:
			return nil
		case err := <-t.ended:
			t.ended <- nil
			return errors.Join(errors.New("sampling has ended"), err)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

func (t *Taker) wantSamples(wanted map[uint32]*Stack) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.wanted = wanted
}

func (t *Taker) wants() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.wanted)
}

// startClock starts sampling, which continues until Close.
func (t *Taker) startClock() (err error) {
	t.clock.Do(func() {
		config := sampler.Config{SampleRate: clockRate, UserStacks: true, KernelStacks: true, TableBytes: tableBytes}
		if err = t.sampler.Configure(config); err != nil {
			return
		}
		var ctx context.Context
		ctx, t.stop = context.WithCancel(context.Background())
		t.ended = make(chan error, 1)
		go func() { t.ended <- t.sampler.Run(ctx, t.useSample) }()
	})
	if t.ended == nil {
		return fmt.Errorf("sample running threads: %w", err)
	}
	return err
}

// useSample keeps the sample of a wanted thread.
func (t *Taker) useSample(s *sampler.Sample) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	stack := t.wanted[s.TID]
	if stack == nil {
		return nil
	}
	delete(t.wanted, s.TID)
	stack.Sample, stack.Torn = keepSample(s), false
	stack.State, stack.CPU, stack.Comm, stack.Time, stack.Off = kernel.Running, s.CPU, s.Comm, s.Time, 0
	stack.Call = kernel.NoCall
	select {
	case t.got <- struct{}{}:
	default:
	}
	return nil
}

// keepSample copies a sample.
func keepSample(s *sampler.Sample) *sampler.Sample {
	kept := *s
	kept.Sample = &kernel.Sample{}
	kept.Sample.CopyFrom(s.Sample)
	kept.DropStack()
	kept.Interpreted = slices.Clone(s.Interpreted)
	return &kept
}

// present leaves out threads that have ended since and could not be read.
func (t *Taker) present(stacks []*Stack, tid uint32) ([]*Stack, error) {
	missing := slices.ContainsFunc(stacks, func(s *Stack) bool { return s.Sample == nil })
	if !missing {
		return stacks, nil
	}
	alive := map[uint32]bool{}
	err := t.threads.Read(t.pid, tid, func(now *kernel.Thread) { alive[now.TID] = now.State != kernel.Ended })
	stacks = slices.DeleteFunc(stacks, func(s *Stack) bool { return s.Sample == nil && !alive[s.TID] })
	if err == nil && len(stacks) == 0 {
		err = ErrGone
	}
	return stacks, err
}
