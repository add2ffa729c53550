// Package engine finds the interpreters of languages in processes, reads the functions that samples show, and numbers
// them. It knows no language: a [language.Library] describes the frames and the code objects of one. All reads of
// processes' memory are bounded, in count and in time, and so is the memory for functions.
package engine

import (
	"fmt"
	"reflect"
	"sync"
	"time"

	"github.com/headwater/headwater/ebpf/common/limit"
	"github.com/headwater/headwater/ebpf/host/filework"
	"github.com/headwater/headwater/ebpf/host/procfs"
	"github.com/headwater/headwater/ebpf/language"
	"github.com/headwater/headwater/ebpf/unwind"
)

// Store holds the data by which the BPF programs read the frames of interpreters.
type Store interface {
	// AddInterpreter stores how frames are found. number, valid until RemoveInterpreter, is for processes and programs;
	// samples carry id.
	AddInterpreter(s *language.Spec) (number uint16, id uint32, err error)
	RemoveInterpreter(number uint16)
	// SetProgram gives the interpreter to all new processes of a program; number 0 takes it away.
	SetProgram(p unwind.Program, number uint16) error
}

// Files numbers the executables that stand for the functions of interpreters.
type Files interface {
	AddInterpreterFile(name string) unwind.ExeID
	RemoveInterpreterFile(exe unwind.ExeID)
}

// Config says what an Engine works with. All fields are required.
type Config struct {
	Store  Store
	Files  Files
	FS     procfs.FS
	Work   *filework.Pool // reads the memory of processes
	Failed func(error)    // is called with errors that lose names, and with nil
}

// Engine is the registry of interpreters. Safe for concurrent use.
type Engine struct {
	Config
	patience time.Duration // bound of the wait for functions and frames
	reads    *reads
	room     *room

	mu       sync.Mutex
	all      []*Interpreter
	byID     map[uint32]*Interpreter         // by the number that samples carry
	byFile   map[unwind.ExeID]*Interpreter   // by the executable that stands for the functions
	programs map[unwind.Program]*Interpreter // of all processes of the program
}

// ReadPatience is how long an Engine waits for the memory of a process by default, see [Engine.SetPatience].
const ReadPatience = 20 * time.Millisecond

// New returns an Engine without interpreters.
func New(c Config) *Engine {
	return &Engine{
		Config: c, patience: ReadPatience, reads: newReads(c.FS), room: newRoom(), byID: map[uint32]*Interpreter{},
		byFile: map[unwind.ExeID]*Interpreter{}, programs: map[unwind.Program]*Interpreter{},
	}
}

// SetPatience sets how long the Engine waits for the memory of a process when it reads functions and frames. Call it
// before the Engine is used.
func (e *Engine) SetPatience(d time.Duration) { e.patience = d }

// Times after which an interpreter that no process has is forgotten. An interpreter that new processes get from their
// start is kept for longer.
const (
	interpreterRest = 2 * time.Minute
	everywhereRest  = time.Hour
)

// Add returns the interpreter of a library whose frames are found and named by frames or, if frames is nil, the one
// that stands for functions that cannot be named. It adds a new interpreter if there is none.
func (e *Engine) Add(
	library language.Library, frames language.FrameReader, unnamed language.UnnamedError,
) (*Interpreter, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, i := range e.all {
		same := i.library == library && i.unnamed.Frame == unnamed.Frame && i.unnamed.Made == unnamed.Made
		if same && (frames == nil) == (i.frames == nil) &&
			(frames == nil || reflect.DeepEqual(i.frames.Spec(), frames.Spec())) {
			i.used = time.Now()
			return i, nil
		}
	}
	i := &Interpreter{
		engine: e, library: library, frames: frames, unnamed: unnamed, name: unnamed.Frame, used: time.Now(),
		functions: newFunctions(e.room), machine: machineCodes{room: e.room},
	}
	if frames != nil {
		var err error
		if i.number, i.id, err = e.Store.AddInterpreter(frames.Spec()); err != nil {
			return nil, fmt.Errorf("%s: %w", frames.Name(), err)
		}
		i.name = frames.Name()
	}
	i.exe = e.Files.AddInterpreterFile(i.name)
	e.byFile[i.exe] = i
	e.all = append(e.all, i)
	e.room.addHolders(&i.functions, &i.machine)
	if i.id != 0 {
		e.byID[i.id] = i
	}
	return i, nil
}

// SetProgram gives an interpreter to other processes of a program from their start.
func (e *Engine) SetProgram(p unwind.Program, i *Interpreter) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.programs[p] == i {
		return nil
	}
	if err := e.Store.SetProgram(p, i.number); err != nil {
		return err
	}
	e.programs[p] = i
	return nil
}

// Sweep forgets interpreters that no process has had for some time, and functions that samples have not had recently.
// present are the interpreters that processes have now.
func (e *Engine) Sweep(present map[*Interpreter]bool, now time.Time) {
	e.reads.trimEnded(now)
	if e.room.refused() > 0 {
		e.Failed(limit.Hit(limit.Functions, errRoom))
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	kept := e.all[:0]
	for _, i := range e.all {
		i.functions.trimUnused(now.Add(-interpreterRest))
		i.machine.trimUnused(now.Add(-interpreterRest))
		if present[i] {
			i.used = now
		}
		if now.Sub(i.used) < i.restTime() {
			kept = append(kept, i)
			continue
		}
		e.forgetInterpreter(i)
	}
	clear(e.all[len(kept):])
	e.all = kept
}

func (i *Interpreter) restTime() time.Duration {
	if i.frames != nil && i.frames.Spec().Everywhere {
		return everywhereRest
	}
	return interpreterRest
}

// forgetInterpreter forgets an interpreter. The caller holds the lock.
func (e *Engine) forgetInterpreter(i *Interpreter) {
	for p, of := range e.programs {
		if of == i {
			e.Failed(e.Store.SetProgram(p, 0))
			delete(e.programs, p)
		}
	}
	if i.number != 0 {
		e.Store.RemoveInterpreter(i.number)
	}
	delete(e.byID, i.id)
	delete(e.byFile, i.exe)
	e.room.remove(&i.functions, &i.machine)
	e.Files.RemoveInterpreterFile(i.exe)
}

// ByFile returns the interpreter whose functions an executable stands for, or false for a file.
func (e *Engine) ByFile(exe unwind.ExeID) (*Interpreter, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	i, ok := e.byFile[exe]
	return i, ok
}

// ByID returns the interpreter with the number that a sample has, or nil if it has been forgotten.
func (e *Engine) ByID(id uint32) *Interpreter {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.byID[id]
}
