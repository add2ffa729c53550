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
	"github.com/headwater/headwater/ebpf/unwind"
)

// interpretation is an interpreter in a process.
type interpretation struct {
	exe     *Executable // the file that contains it, mapped by the process
	library language.Interpreted
	bias    uint64
	dev     uint64 // of the file
	inode   uint64

	makers []string // names of runtimes in the process that generate code; sorted; the slice is replaced, never changed

	interpreter *Interpreter // nil while unknown
	busy        bool         // the library is being asked for it
	failed      bool         // it will never be known
	first       time.Time    // when the library was first asked
	tried       time.Time    // when it was last asked

	doubt   *doubt   // about its code objects
	unloads *unloads // of its code objects
}

// interpret notes that a process has mapped an executable that may be an interpreter. It reports whether to ask the
// interpreter how its frames are found.
func (p *Process) interpret(e *Executable, m *mapping, file *procfs.Mapping) bool {
	if m.exe == nil {
		return false
	}
	library, ok := e.library.(language.Interpreted)
	if !ok {
		return false
	}
	i := p.interpretation
	replaces := i == nil || i.yields(library)
	if replaces {
		p.interpretation = &interpretation{
			exe: e, library: library, bias: m.bias, dev: file.Dev, inode: file.Inode, doubt: &doubt{},
			unloads: &unloads{},
		}
		if i != nil {
			p.interpretation.makers = i.makers
		}
	}
	if maker, ok := library.(language.Making); ok {
		p.interpretation.addMaker(maker.Makes())
	}
	return replaces
}

// addMaker notes a runtime that generates code in the process.
func (i *interpretation) addMaker(name string) {
	if at, known := slices.BinarySearch(i.makers, name); !known {
		i.makers = slices.Insert(slices.Clip(i.makers), at, name)
	}
}

// yields reports whether another library of the process supplies the frames instead of i's: its functions have names,
// or at least frames, and i's have none.
func (i *interpretation) yields(other language.Interpreted) bool {
	return saidOf(other) > saidOf(i.library)
}

// saidOf returns how much the frames of a library say: 0 if its functions are all generated code, 1 if a frame stands
// for them, 2 if they have names.
func saidOf(library language.Interpreted) int {
	if _, ok := library.(language.Making); ok {
		return 0
	}
	if _, ok := library.(language.Unnamed); ok {
		return 1
	}
	return 2
}

// inherit returns the interpretation that a child process inherits.
func (i *interpretation) inherit() *interpretation {
	if i == nil {
		return nil
	}
	child := *i
	child.busy, child.first, child.tried, child.doubt = false, time.Time{}, time.Time{}, &doubt{}
	child.unloads = &unloads{}
	return &child
}

// isOpen reports whether the interpreter has not answered yet.
func (i *interpretation) isOpen() bool { return i != nil && i.interpreter == nil && !i.failed }

// pause returns how long to wait before an interpreter that was not ready is asked again.
func (i *interpretation) pause(now time.Time) time.Duration {
	return min(max(retryAttach, now.Sub(i.first)/4), maxPause)
}

// interpretations returns the commands that ask interpreters how their frames are found.
func (s *state) interpretations(now time.Time) (commands []Command) {
	waiting := s.interpreting[:0]
	for _, p := range s.interpreting {
		i := p.interpretation
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
		commands = append(commands, interpret{p, i})
	}
	clear(s.interpreting[len(waiting):])
	s.interpreting = waiting
	return commands
}

// interpret asks an interpreter how its frames are found in a process.
type interpret struct {
	process        *Process
	interpretation *interpretation
}

func (c interpret) run(t *Tracker) Event {
	pid, i := c.process.PID, c.interpretation
	what := fmt.Sprintf("reading the interpreter of process %d", pid)
	read := func() (language.Interpreter, error) {
		return i.library.Interpret(language.Process{PID: pid, Bias: i.bias, Memory: t.fs.Memory(pid)})
	}
	runs, err := filework.Get(t.exes.work, memoryOf(t.fs, pid), what, t.exes.patience, read, nil)
	var unnamed *language.UnnamedError
	switch {
	case errors.Is(err, language.ErrNotReady), filework.Later(err):
		return interpreted{interpret: c, retry: true}
	case errors.As(err, &unnamed):
		made, err := t.exes.interpreter(i.library, nil, *unnamed)
		t.failed(err)
		return interpreted{interpret: c, made: made}
	case err != nil:
		if !procfs.Gone(err) && !errors.Is(err, language.ErrUnknown) {
			t.noteError(err)
		}
		return interpreted{interpret: c}
	}
	made, err := t.exes.interpreter(i.library, runs, language.UnnamedError{})
	if err == nil && runs.Spec().Everywhere {
		err = t.setProgram(pid, i, made)
	}
	t.failed(err)
	return interpreted{interpret: c, made: made}
}

// setProgram gives the interpreter to other processes of the same program from their start.
func (t *Tracker) setProgram(pid uint32, i *interpretation, made *Interpreter) error {
	var st unix.Stat_t
	if unix.Stat(t.fs.Exe(pid), &st) != nil || st.Dev != i.dev || st.Ino != i.inode {
		return nil // the interpreter is a library of the program
	}
	start, err := t.fs.StartCode(pid)
	if err != nil || start == 0 {
		return nil // the process has gone, or may not be inspected
	}
	p := unwind.Program{Major: unix.Major(i.dev), Minor: unix.Minor(i.dev), Inode: i.inode, StartCode: start - i.bias}
	x := &t.exes.interpreters
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.programs[p] == made {
		return nil
	}
	if err := t.store.SetProgram(p, made.number); err != nil {
		return err
	}
	x.programs[p] = made
	return nil
}

// interpreted is the answer of an interpreter that was asked how its frames are found.
type interpreted struct {
	interpret
	made  *Interpreter
	retry bool // it may be known later
}

func (e interpreted) apply(s *state) []Command {
	p, i := e.process, e.interpretation
	i.busy = false
	if s.processes[p.PID] != p || p.interpretation != i || e.retry {
		return nil
	}
	i.interpreter, i.failed = e.made, e.made == nil
	s.touch(p)
	return nil
}
