package process

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/headwater/headwater/ebpf/host/filework"
	"github.com/headwater/headwater/ebpf/host/procfs"
	"github.com/headwater/headwater/ebpf/language"
	"github.com/headwater/headwater/ebpf/language/engine"
	"github.com/headwater/headwater/ebpf/unwind"
)

// interpretedRuntime is the runtime of a process that has frames besides its machine code.
type interpretedRuntime struct {
	exe     *Executable // the file that contains it, mapped by the process
	library language.Library
	bias    uint64
	dev     uint64 // of the file
	inode   uint64

	makers []string // names of runtimes in the process that generate code; sorted; the slice is replaced, never changed

	interpreter *engine.Interpreter // nil while unknown
	busy        bool                // the library is being asked for it
	failed      bool                // it will never be known
	first       time.Time           // when the library was first asked
	tried       time.Time           // when it was last asked

	lookups *engine.Lookups // of its functions
}

// noteRuntime notes that a process has mapped an executable that may be an interpreter. It reports whether to ask the
// interpreter how its frames are found.
func (p *Process) noteRuntime(e *Executable, m *mapping, file *procfs.Mapping) bool {
	if m.exe == nil || e.library == nil {
		return false
	}
	traits, old := e.library.Traits(), p.interpreted
	if traits.Frames == language.NoFrames {
		return false
	}
	replaces := old == nil || old.library.Traits().Frames < traits.Frames
	if replaces {
		p.interpreted = &interpretedRuntime{
			exe: e, library: e.library, bias: m.bias, dev: file.Dev, inode: file.Inode, lookups: &engine.Lookups{},
		}
		if old != nil {
			p.interpreted.makers = old.makers
		}
	}
	if traits.Generates != "" {
		p.interpreted.addMaker(traits.Generates)
	}
	return replaces
}

// addMaker notes a runtime that generates code in the process.
func (i *interpretedRuntime) addMaker(name string) {
	if at, known := slices.BinarySearch(i.makers, name); !known {
		i.makers = slices.Insert(slices.Clip(i.makers), at, name)
	}
}

// inherit returns the runtime that a child process inherits.
func (i *interpretedRuntime) inherit() *interpretedRuntime {
	if i == nil {
		return nil
	}
	child := *i
	child.busy, child.first, child.tried, child.lookups = false, time.Time{}, time.Time{}, &engine.Lookups{}
	return &child
}

// isOpen reports whether the interpreter has not answered yet.
func (i *interpretedRuntime) isOpen() bool { return i != nil && i.interpreter == nil && !i.failed }

// pause returns how long to wait before an interpreter that was not ready is asked again.
func (i *interpretedRuntime) pause(now time.Time) time.Duration {
	return min(max(retryAttach, now.Sub(i.first)/4), maxPause)
}

// runtimeCommands returns the commands that ask interpreters how their frames are found.
func (s *state) runtimeCommands(now time.Time) (commands []Command) {
	waiting := s.awaiting[:0]
	for _, p := range s.awaiting {
		i := p.interpreted
		if s.processes[p.PID] != p || p.ended != 0 || !i.isOpen() {
			continue
		}
		waiting = append(waiting, p)
		if i.busy || now.Sub(i.tried) < i.pause(now) && !i.tried.IsZero() {
			continue
		}
		if i.tried, i.busy = now, true; i.first.IsZero() {
			i.first = now
		}
		commands = append(commands, attachInterpreter{p, i})
	}
	clear(s.awaiting[len(waiting):])
	s.awaiting = waiting
	return commands
}

// attachInterpreter asks an interpreter how its frames are found in a process.
type attachInterpreter struct {
	process *Process
	runtime *interpretedRuntime
}

func (c attachInterpreter) run(t *Tracker) Event {
	pid, i := c.process.PID, c.runtime
	what := fmt.Sprintf("reading the interpreter of process %d", pid)
	read := func() (language.FrameReader, error) {
		return i.library.FindFrames(language.Process{PID: pid, Bias: i.bias, Memory: t.fs.Memory(pid)})
	}
	frames, err := filework.Get(t.exes.work, filework.OfMemory(t.fs, pid), what, t.exes.patience, read, nil)
	var unnamed *language.UnnamedError
	switch {
	case errors.Is(err, language.ErrNotReady), filework.Later(err):
		return interpreterAttached{attachInterpreter: c, retry: true}
	case errors.As(err, &unnamed):
		made, err := t.languages.Add(i.library, nil, *unnamed)
		t.failed(err)
		return interpreterAttached{attachInterpreter: c, made: made}
	case err != nil:
		if !procfs.Gone(err) && !errors.Is(err, language.ErrUnknown) {
			t.noteError(err)
		}
		return interpreterAttached{attachInterpreter: c}
	}
	made, err := t.languages.Add(i.library, frames, language.UnnamedError{})
	if err == nil && frames.Spec().Everywhere {
		err = t.setProgram(pid, i, made)
	}
	t.failed(err)
	return interpreterAttached{attachInterpreter: c, made: made}
}

// setProgram gives the interpreter to other processes of the same program from their start.
func (t *Tracker) setProgram(pid uint32, i *interpretedRuntime, made *engine.Interpreter) error {
	var st unix.Stat_t
	if unix.Stat(t.fs.Exe(pid), &st) != nil || st.Dev != i.dev || st.Ino != i.inode {
		return nil // the interpreter is a library of the program
	}
	start, err := t.fs.StartCode(pid)
	if err != nil || start == 0 {
		return nil // the process has gone, or may not be inspected
	}
	p := unwind.Program{Major: unix.Major(i.dev), Minor: unix.Minor(i.dev), Inode: i.inode, StartCode: start - i.bias}
	return t.languages.SetProgram(p, made)
}

// interpreterAttached is the answer of an interpreter that was asked how its frames are found.
type interpreterAttached struct {
	attachInterpreter
	made  *engine.Interpreter
	retry bool // it may be known later
}

func (e interpreterAttached) apply(s *state) []Command {
	p, i := e.process, e.runtime
	i.busy = false
	if s.processes[p.PID] != p || p.interpreted != i || e.retry {
		return nil
	}
	i.interpreter, i.failed = e.made, e.made == nil
	s.touch(p)
	return nil
}
