// Package walks takes the profiler's stacks of single processes, for what another
// unwinder finds to be compared with.
package walks

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/headwater/headwater/ebpf"
	"github.com/headwater/headwater/ebpf/kernel"
	"github.com/headwater/headwater/ebpf/runtime"
	"github.com/headwater/headwater/ebpf/runtime/jvm"
	"github.com/headwater/headwater/ebpf/sampler"
	"github.com/headwater/headwater/ebpf/unwind"
)

// Walk is a sample of the profiler, finished as a profile would have it.
type Walk struct {
	Time        uint64 // CLOCK_MONOTONIC, ns
	TID         uint32
	Comm        string
	Outcome     unwind.Outcome
	Frames      []Place          // leaf first
	Lines       [][]runtime.Line // of each frame, what a language runtime says of it; none in files
	Replaced    bool             // the process ran another program when the sample was read
	Interpreted map[int]bool     // which of those an interpreter runs
	// Functions are those that an interpreter ran, leaf first: nil if none were found.
	Functions []Function
}

// Function is a function that an interpreter ran, and where in it.
type Function struct {
	Name, File string
	Line       int // 0 if that is not known

	frame  kernel.Frame
	native int // the frame of the walk in whose place it is, -1: none
}

// Place is where a frame is: an ELF virtual address in a file, or an address in the
// process where there is no file.
type Place struct {
	File    string
	Address uint64
	Return  bool // the address is where a call returns to; only the profiler says that
}

// VDSO is the file of the code that the kernel maps into each process, as the dynamic
// linker names it.
const VDSO = "linux-vdso.so.1"

// IsJava reports whether a place is in code that a Java VM has made. Such files have a
// name for each VM, and addresses relative to a base that the profiler does not say.
func (p Place) IsJava() bool { return strings.HasPrefix(p.File, jvm.CodePath) }

// Sampler is the profiler, sampling at perf events of its user alone.
type Sampler struct {
	sampler *sampler.Sampler
	cancel  context.CancelFunc
	running sync.WaitGroup
	err     error // of Run

	mu    sync.Mutex
	walks []Walk
	files map[unwind.ExeID]string // by executable
}

// Open loads the profiler. Close it after use.
func Open() (*Sampler, error) {
	// The program lets an event go on, to a signal for one, only where snapshots are taken.
	options := sampler.Options{TableBytes: ebpf.DefaultOptions().TableBytes, Interval: 20 * time.Millisecond,
		Snapshots: true}
	profiler, err := sampler.Open(options)
	if err != nil {
		return nil, err
	}
	if err := profiler.Configure(sampler.Config{UserStacks: true, TableBytes: options.TableBytes}); err != nil {
		return nil, errors.Join(err, profiler.Close())
	}
	ctx, cancel := context.WithCancel(context.Background())
	s := &Sampler{sampler: profiler, cancel: cancel, files: map[unwind.ExeID]string{0: ""}}
	s.running.Go(func() { s.err = profiler.Run(ctx, s.take) })
	s.running.Go(func() { s.sweep(ctx) })
	return s, nil
}

// ClockOf describes the clock of a task, which counts in user mode.
func ClockOf(rate int) *unix.PerfEventAttr {
	attr := &unix.PerfEventAttr{
		Type:   unix.PERF_TYPE_SOFTWARE,
		Config: unix.PERF_COUNT_SW_CPU_CLOCK,
		Sample: uint64(time.Second) / uint64(rate),
		Bits:   unix.PerfBitDisabled | unix.PerfBitExcludeKernel,
	}
	attr.Size = uint32(unsafe.Sizeof(*attr))
	return attr
}

// Sample takes a walk at each sample of an event of a task, until the caller closes
// that. The event is opened disabled.
func (s *Sampler) Sample(attr *unix.PerfEventAttr, task int) (event int, err error) {
	event, err = unix.PerfEventOpen(attr, task, -1, -1, unix.PERF_FLAG_FD_CLOEXEC)
	if err != nil {
		return -1, fmt.Errorf("perf_event_open: %w", err)
	}
	if err := s.sampler.Attach(event); err != nil {
		return -1, errors.Join(err, unix.Close(event))
	}
	return event, nil
}

// sweep forgets programs that have ended, as the profiler does, until the context ends.
func (s *Sampler) sweep(ctx context.Context) {
	const idle = time.Minute
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(idle / 4):
		}
		s.mu.Lock()
		s.nameAll()
		for _, exe := range s.sampler.Sweep(idle) {
			delete(s.files, exe)
		}
		s.mu.Unlock()
	}
}

func (s *Sampler) take(sample *sampler.Sample) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := Walk{
		Time: sample.Time, TID: sample.TID, Comm: sample.Comm, Outcome: sample.Outcome,
		Replaced: s.sampler.Replaced(sample), Interpreted: map[int]bool{},
	}
	for _, f := range sample.User {
		w.Frames = append(w.Frames, s.place(f))
		w.Lines = append(w.Lines, s.lines(f))
	}
	for i, f := range sample.Interpreted {
		if f.Flags&kernel.Interpreted == 0 {
			continue
		}
		if len(sample.Interpreted) != len(sample.User) { // it is one more
			i = -1
		}
		w.Functions = append(w.Functions, Function{frame: f, native: i})
	}
	s.walks = append(s.walks, w)
	return nil
}

func (s *Sampler) lines(f kernel.Frame) []runtime.Line {
	if code, ok := s.sampler.JITCode(f.Exe); ok {
		return code.Lines(f.Code)
	}
	return nil
}

func (s *Sampler) place(f kernel.Frame) Place {
	p := Place{s.file(f), f.Vaddr, f.Flags&kernel.ReturnAddress != 0}
	if code, ok := s.sampler.JITCode(f.Exe); ok {
		p.Address = code.Address(f.Vaddr)
	}
	return p
}

// nameAll names the functions of all walks that are known by now.
func (s *Sampler) nameAll() {
	for _, w := range s.walks {
		for i := range w.Functions {
			f := &w.Functions[i]
			if f.Name != "" {
				continue
			}
			if s.name(f); f.native >= 0 && f.Name != "" {
				w.Lines[f.native] = []runtime.Line{{Function: f.Name, File: f.File, Line: f.Line}}
				w.Interpreted[f.native] = true
			}
		}
	}
}

// name names a function, if it is known.
func (s *Sampler) name(f *Function) {
	i, ok := s.sampler.Interpreter(f.frame.Exe)
	if !ok {
		return
	}
	if function, ok := i.Function(f.frame.Code); ok {
		lines := i.Lines(&function, f.frame.Lookup(), f.frame.Flags&kernel.ReturnAddress != 0)
		own := lines[len(lines)-1] // without those that were inlined into it
		f.Name, f.File, f.Line = own.Function, own.File, own.Line
	}
}

// file returns the path of the executable that a frame is in.
func (s *Sampler) file(f kernel.Frame) string {
	exe := f.Exe
	path, known := s.files[exe]
	if known {
		return path
	}
	if e := s.sampler.Executable(exe); e != nil {
		path = e.Path
		if path == "[vdso]" {
			path = VDSO
		}
		if f.Code != 0 {
			path = fmt.Sprintf("%s %d", path, exe)
		}
	}
	s.files[exe] = path
	return path
}

// Stop ends sampling and returns all walks, in order of time.
func (s *Sampler) Stop() ([]Walk, error) {
	err := s.end()
	s.nameAll()
	slices.SortStableFunc(s.walks, func(a, b Walk) int { return cmp.Compare(a.Time, b.Time) })
	return s.walks, err
}

func (s *Sampler) end() error {
	s.cancel()
	s.running.Wait()
	return s.err
}

// Close unloads the profiler.
func (s *Sampler) Close() error { return errors.Join(s.end(), s.sampler.Close()) }
