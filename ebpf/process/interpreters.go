package process

import (
	"fmt"
	"reflect"
	"sync"
	"time"

	"github.com/headwater/headwater/ebpf/common/limit"
	"github.com/headwater/headwater/ebpf/language"
	"github.com/headwater/headwater/ebpf/unwind"
)

// interpreters is the registry of interpreters. Safe for concurrent use.
type interpreters struct {
	mu       sync.Mutex
	all      []*Interpreter
	byID     map[uint32]*Interpreter         // by the number that samples carry
	programs map[unwind.Program]*Interpreter // of all processes of the program
	reads    *reads
	room     *room

	// Guarded by the registry of executables.
	byExe map[unwind.ExeID]*Interpreter // by the executable that stands for the functions
}

// Times after which an interpreter that no process has is forgotten. An interpreter that new processes get from their
// start is kept for longer.
const (
	interpreterRest = 2 * time.Minute
	everywhereRest  = time.Hour
)

// interpreter returns the interpreter of a library that finds its frames as runs does or, if runs is nil, the one that
// stands for functions that cannot be named. It adds a new interpreter if there is none.
func (x *executables) interpreter(
	library language.Library, runs language.Interpreter, unnamed language.UnnamedError,
) (*Interpreter, error) {
	x.interpreters.mu.Lock()
	defer x.interpreters.mu.Unlock()
	for _, i := range x.interpreters.all {
		same := i.library == library && i.unnamed.Frame == unnamed.Frame && i.unnamed.Made == unnamed.Made
		if same && (runs == nil) == (i.runs == nil) &&
			(runs == nil || reflect.DeepEqual(i.runs.Spec(), runs.Spec())) {
			i.used = time.Now()
			return i, nil
		}
	}
	i := &Interpreter{
		library: library, runs: runs, unnamed: unnamed, used: time.Now(),
		functions: newFunctions(x.interpreters.room), machine: machineCodes{room: x.interpreters.room},
	}
	name := unnamed.Frame
	if runs != nil {
		var err error
		if i.number, i.id, err = x.store.AddInterpreter(runs.Spec()); err != nil {
			return nil, fmt.Errorf("%s: %w", runs.Name(), err)
		}
		name = runs.Name()
	}
	x.mu.Lock()
	i.exe = &Executable{Path: name, Err: errNoFile}
	x.addExecutable(i.exe, newImage(i.exe, nil)).refs++
	x.interpreters.byExe[i.exe.ID] = i
	x.mu.Unlock()
	x.interpreters.all = append(x.interpreters.all, i)
	x.interpreters.room.addHolders(&i.functions, &i.machine)
	if i.id != 0 {
		x.interpreters.byID[i.id] = i
	}
	return i, nil
}

// sweepInterpreters forgets interpreters that no process has had for some time, and functions that were not seen
// recently.
func (t *Tracker) sweepInterpreters(now time.Time) {
	had := map[*Interpreter]bool{}
	t.mu.Lock()
	for _, p := range t.state.processes {
		if p.interpretation != nil {
			had[p.interpretation.interpreter] = true
		}
		for _, old := range p.epochs {
			if old.interpretation != nil {
				had[old.interpretation.interpreter] = true
			}
		}
	}
	t.mu.Unlock()
	x := &t.exes.interpreters
	x.reads.trimEnded(now)
	if x.room.refused() > 0 {
		t.failed(limit.Hit(limit.Functions, errRoom))
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	kept := x.all[:0]
	for _, i := range x.all {
		i.functions.trimUnused(now.Add(-interpreterRest))
		i.machine.trimUnused(now.Add(-interpreterRest))
		if had[i] {
			i.used = now
		}
		if now.Sub(i.used) < i.restTime() {
			kept = append(kept, i)
			continue
		}
		t.forgetInterpreter(i)
	}
	clear(x.all[len(kept):])
	x.all = kept
}

func (i *Interpreter) restTime() time.Duration {
	if i.runs != nil && i.runs.Spec().Everywhere {
		return everywhereRest
	}
	return interpreterRest
}

// forgetInterpreter forgets an interpreter. The caller holds the lock of the registry.
func (t *Tracker) forgetInterpreter(i *Interpreter) {
	x := &t.exes.interpreters
	for p, of := range x.programs {
		if of == i {
			t.failed(t.store.SetProgram(p, 0))
			delete(x.programs, p)
		}
	}
	if i.number != 0 {
		t.store.RemoveInterpreter(i.number)
	}
	delete(x.byID, i.id)
	x.room.remove(&i.functions, &i.machine)
	t.exes.mu.Lock()
	delete(x.byExe, i.exe.ID)
	t.exes.mu.Unlock()
	t.exes.release(i.exe)
}

// Interpreter returns the interpreter whose functions an executable stands for, or false for a file.
func (t *Tracker) Interpreter(exe unwind.ExeID) (*Interpreter, bool) {
	t.exes.mu.Lock()
	defer t.exes.mu.Unlock()
	i, ok := t.exes.interpreters.byExe[exe]
	return i, ok
}

// InterpreterOf returns the interpreter with the number that a sample has, or nil if it has been forgotten.
func (t *Tracker) InterpreterOf(id uint32) *Interpreter {
	x := &t.exes.interpreters
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.byID[id]
}
