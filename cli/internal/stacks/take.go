// Package stacks takes the stacks of the threads of a process, names their frames and prints them.
package stacks

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/headwater/headwater/ebpf/host/filework"
	"github.com/headwater/headwater/ebpf/host/procfs"
	"github.com/headwater/headwater/ebpf/kernel"
	"github.com/headwater/headwater/ebpf/process/target"
	"github.com/headwater/headwater/ebpf/profile"
	"github.com/headwater/headwater/ebpf/sampler"
	"github.com/headwater/headwater/ebpf/source/snapshot"
	"github.com/headwater/headwater/ebpf/source/wait"
	"github.com/headwater/headwater/flame/demangle"
	"github.com/headwater/headwater/flame/pprof"
)

// namePatience bounds the wait for names: reading the debug info of the largest programs takes seconds.
const namePatience = 20 * time.Second

// Report holds the stacks of a process.
type Report struct {
	PID       uint32   `json:"pid"`
	Command   string   `json:"command"` // command line of the process; a kernel thread's name, in brackets
	Container string   `json:"container,omitempty"`
	Core      *Core    `json:"core,omitempty"` // nil for a running process
	Threads   []Thread `json:"threads"`
}

// Thread is a thread and its stack.
type Thread struct {
	TID   uint32 `json:"tid"`
	Name  string `json:"name"`
	State string `json:"state"`
	CPU   uint32 `json:"cpu"` // its current CPU, or the last one
	// Wait describes what the thread waits for; "" if it does not wait or that is unknown; see docs/reference/cli.md.
	Wait string `json:"wait,omitempty"`
	// Signal is the signal in a core file, if it was sent to this thread.
	Signal string `json:"signal,omitempty"`
	// OffSeconds is how long the thread has been off CPU; nil if it runs or that is unknown.
	OffSeconds *float64 `json:"off_cpu_seconds,omitempty"`
	Whole      bool     `json:"whole"`            // complete from the leaf to the root, taken at one moment
	Reason     string   `json:"reason,omitempty"` // why it is not complete
	Frames     []Frame  `json:"frames"`           // leaf first
}

// Frame is a function in a stack. Inlined functions have their own frames.
type Frame struct {
	Function string `json:"function,omitempty"` // "" if unknown
	Kind     Kind   `json:"kind"`
	Module   string `json:"module,omitempty"`  // path of the file, or a placeholder such as "[python 3.11]"
	Address  string `json:"address,omitempty"` // ELF virtual address in the module, or address in the process
	File     string `json:"file,omitempty"`
	Line     int64  `json:"line,omitempty"`
	Inlined  bool   `json:"inlined,omitempty"` // into the next frame
}

// Kind is the kind of a frame.
type Kind string

// The kinds of frames.
const (
	Kernel      Kind = "kernel"
	Native      Kind = "native"      // code in a file
	Interpreted Kind = "interpreted" // a function run by a language runtime
	JIT         Kind = "jit"         // code generated at run time
)

// Resolve returns the process with that ID, or the process of the thread with that ID. tid is 0 for the first thread of
// a process.
func Resolve(text string) (pid, tid uint32, err error) {
	id, err := strconv.ParseUint(text, 10, 32)
	if err != nil || id == 0 {
		return 0, 0, fmt.Errorf("%q is no process or thread ID", text)
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", id))
	switch {
	case procfs.Gone(err):
		return 0, 0, fmt.Errorf("there is no process or thread %d", id)
	case err != nil:
		return 0, 0, err
	}
	for line := range bytes.Lines(status) {
		if value, ok := bytes.CutPrefix(line, []byte("Tgid:")); ok {
			group, err := strconv.ParseUint(string(bytes.TrimSpace(value)), 10, 32)
			if err != nil {
				return 0, 0, fmt.Errorf("read /proc/%d/status: %w", id, err)
			}
			if pid = uint32(group); pid != uint32(id) {
				tid = uint32(id)
			}
			return pid, tid, nil
		}
	}
	return 0, 0, fmt.Errorf("read /proc/%d/status: it has no Tgid", id)
}

// Take takes the stacks of all threads of a process, or only of the thread tid if it is not 0. inline says whether
// inlined functions get their own frames.
func Take(ctx context.Context, pid, tid uint32, inline bool) (report *Report, err error) {
	taker, err := snapshot.Open(pid)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, taker.Close()) }()
	command, container := describe(pid)
	taken, err := taker.Take(ctx, tid)
	if errors.Is(err, snapshot.ErrGone) {
		return nil, goneError(pid, tid)
	}
	if err != nil {
		return nil, err
	}
	report = &Report{PID: pid, Command: command, Container: container}
	if err := report.nameStacks(taken, taker.Sampler(), inline); err != nil {
		return nil, err
	}
	return report, nil
}

// goneError returns the error for a process or thread for which the kernel has shown no thread.
func goneError(pid, tid uint32) error {
	what, id := "process", pid
	if tid != 0 {
		what, id = "thread", tid
	}
	if _, _, err := Resolve(strconv.FormatUint(uint64(id), 10)); err == nil {
		return fmt.Errorf("%s %d has no stack: it has ended and waits for its parent, or it is hidden", what, id)
	}
	return fmt.Errorf("%s %d has ended", what, id)
}

// describe returns the command line of a process, and its container.
func describe(pid uint32) (command, container string) {
	command, _ = procfs.Default.Cmdline(pid) // ended processes and kernel threads have only a name
	if command = strings.TrimSpace(command); command == "" {
		comm, _ := procfs.Default.Comm(pid)
		command = "[" + comm + "]"
	}
	cgroups := procfs.Default.Cgroups()
	defer cgroups.Close()
	lines, _ := cgroups.Cgroup(pid) // empty if unknown
	return command, target.ContainerIDFromCgroup(lines)
}

// nameStacks adds the taken threads with named frames.
func (r *Report) nameStacks(taken []*snapshot.Stack, from profile.Executables, inline bool) error {
	names, err := profile.New(profile.Options{
		SampleRate: 1, Demangle: demangle.Simplified, NoInlinedFrames: !inline,
	}, from, &filework.Pool{})
	if err != nil {
		return err
	}
	defer names.Close()
	var samples []*sampler.Sample
	for _, s := range taken {
		if s.Sample != nil {
			samples = append(samples, s.Sample)
		}
	}
	named := names.Name(samples, namePatience)
	for _, s := range taken {
		t := newThread(s)
		if s.Sample != nil {
			t.addFrames(s, &named[0])
			named = named[1:]
		}
		r.Threads = append(r.Threads, t)
	}
	return nil
}

func newThread(s *snapshot.Stack) Thread {
	t := Thread{TID: s.TID, Name: s.Comm, State: s.State.String(), CPU: s.CPU, Whole: s.Whole(), Frames: []Frame{}}
	if s.Off >= 0 && s.State != kernel.Running {
		seconds := s.Off.Seconds()
		t.OffSeconds = &seconds
	}
	switch {
	case s.Sample == nil:
		t.Reason = "the thread runs, and no timer sample hit it"
	case s.Torn:
		t.Reason = fmt.Sprintf("the thread ran during each of %d reads of its stack", s.Tries)
	case !t.Whole:
		t.Reason = s.Sample.Outcome.String()
	}
	return t
}

// addFrames sets the frames, and Wait.
func (t *Thread) addFrames(s *snapshot.Stack, named *profile.Named) {
	var functions []string
	for _, l := range named.Kernel {
		for _, line := range l.Lines {
			functions = append(functions, line.Function)
			t.Frames = append(t.Frames, Frame{Function: line.Function, Kind: Kernel})
		}
	}
	t.Wait = wait.Of(&s.Thread, functions)
	for i, f := range s.Sample.Frames() {
		t.addLocation(f, named.User[i])
	}
}

// addLocation adds the functions of one user frame, innermost first.
func (t *Thread) addLocation(f kernel.Frame, l *pprof.Location) {
	frame := Frame{Kind: kindOf(f)}
	if l.Mapping != nil {
		frame.Module = l.Mapping.File
	}
	switch frame.Kind {
	case Native:
		frame.Address = fmt.Sprintf("0x%x", f.Vaddr) // for a caller: the return address
	case JIT:
		address := l.Address
		if f.Flags&kernel.ReturnAddress != 0 {
			address++ // a location has the address of the call
		}
		frame.Address = fmt.Sprintf("0x%x", address)
	}
	for i, line := range l.Lines {
		one := frame
		one.Function, one.File, one.Line, one.Inlined = line.Function, line.File, line.Line, i < len(l.Lines)-1
		if unnamed(one.Function, frame.Module) {
			one.Function = ""
		}
		t.Frames = append(t.Frames, one)
	}
}

func kindOf(f kernel.Frame) Kind {
	switch {
	case f.Flags&kernel.Interpreted != 0:
		return Interpreted
	case f.Flags&kernel.UnnamedJIT != 0, f.Exe == 0, f.Code != 0:
		return JIT
	}
	return Native
}

// unnamed reports whether a function's name is a placeholder: [unknown], or the file and the address.
func unnamed(function, module string) bool {
	return function == "[unknown]" || module != "" && strings.HasPrefix(function, path.Base(module)+"+0x")
}
