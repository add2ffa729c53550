package process

import (
	"encoding/binary"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/headwater/headwater/ebpf/filework"
	"github.com/headwater/headwater/ebpf/limit"
	"github.com/headwater/headwater/ebpf/procfs"
	"github.com/headwater/headwater/ebpf/runtime"
	"github.com/headwater/headwater/ebpf/runtime/chain"
	"github.com/headwater/headwater/ebpf/unwind"
)

// Interpreter runs the functions of a language in all processes where its frames are found in
// the same way. An executable without a file stands for the functions: a frame's ELF virtual
// address there is where in the function it is, and its code is the function's number. Safe
// for concurrent use.
type Interpreter struct {
	library runtime.Library
	runs    runtime.Interpreter  // nil: its functions cannot be named
	unnamed runtime.UnnamedError // what stands for them then
	id      uint32               // that samples carry; 0: the store does not know it
	number  uint16               // in the store
	exe     *Executable

	functions functions
	machine   machineCodes

	// Guarded by the registry.
	used time.Time
}

// interpreters is the registry of those. Safe for concurrent use.
type interpreters struct {
	mu       sync.Mutex
	all      []*Interpreter
	byID     map[uint32]*Interpreter         // by the number that samples carry
	programs map[unwind.Program]*Interpreter // of all their processes
	reads    *reads
	room     *room

	// Guarded by the registry of executables.
	byExe map[unwind.ExeID]*Interpreter // by the executable that stands for the functions
}

// Times after which an interpreter is forgotten that no process has: one that new processes
// will have, too, is worth more.
const (
	interpreterRest = 2 * time.Minute
	everywhereRest  = time.Hour
)

// interpreter returns the one of a library that finds its frames as runs does, or that stands
// for functions that cannot be named.
func (x *executables) interpreter(
	library runtime.Library, runs runtime.Interpreter, unnamed runtime.UnnamedError,
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
	x.add(i.exe, newImage(i.exe, nil)).refs++
	x.interpreters.byExe[i.exe.ID] = i
	x.mu.Unlock()
	x.interpreters.all = append(x.interpreters.all, i)
	x.interpreters.room.add(&i.functions, &i.machine)
	if i.id != 0 {
		x.interpreters.byID[i.id] = i
	}
	return i, nil
}

// Name is what stands for the file of the functions.
func (i *Interpreter) Name() string { return i.exe.Path }

// Languages of frames, see [Interpreter.Language].
const (
	Python = "python"
	V8     = "V8"   // JavaScript
	Java   = "java" // interpreted methods
)

// Language returns the first word of the name: "python".
func (i *Interpreter) Language() string {
	language, _, _ := strings.Cut(strings.Trim(i.Name(), "[]"), " ")
	return language
}

// Exe returns the ID of the executable that stands for the functions.
func (i *Interpreter) Exe() unwind.ExeID { return i.exe.ID }

// ID returns the number that samples carry of it.
func (i *Interpreter) ID() uint32 { return i.id }

// Function returns a function that frames have the number of, and false if it is not known.
func (i *Interpreter) Function(id unwind.CodeID) (runtime.Function, bool) {
	if f := i.functions.get(id); f != nil {
		return *f, true
	}
	return runtime.Function{}, false
}

// Lines returns the functions that a frame of a function stands for, the innermost first: there are others where some
// were inlined into machine code. returned says that ip, where in the function it is, is of a call.
func (i *Interpreter) Lines(f *runtime.Function, ip uint64, returned bool) []runtime.Line {
	if by, ok := i.runs.(runtime.Compiling); ok && f.Name != "" {
		return by.Lines(f, ip, returned)
	}
	line := runtime.Line{Function: f.Name, File: f.File, StartLine: f.StartLine}
	if i.runs != nil && f.Name != "" {
		line.Line = i.runs.Line(f, ip)
	}
	return []runtime.Line{line}
}

// HasNoFile reports whether native frames of code in no file stand for its frames.
func (i *Interpreter) HasNoFile() bool { return i.runs.Spec().Slots.NoFile }

// HasSlots reports whether native frames stand for its frames, whose numbers are the last of their words.
func (i *Interpreter) HasSlots() bool { return i.runs != nil && i.runs.Spec().Slots != nil }

// Frame says what the words of a frame mean.
func (i *Interpreter) Frame(words []uint64) runtime.Frame { return i.runs.Frame(words) }

// Unnamed returns the number of the frame that stands for those that cannot be named, and
// false if they can.
func (i *Interpreter) Unnamed() (unwind.CodeID, bool) {
	if i.runs != nil {
		return 0, false
	}
	return i.Text(i.unnamed.Frame), true
}

// Hint says why functions cannot be named, and what to do.
func (i *Interpreter) Hint() string { return i.unnamed.Hint }

// Made returns the number of the frame that stands for code in no file of which no function is known, and false if
// that is shown as in any process.
func (i *Interpreter) Made() (unwind.CodeID, bool) {
	switch {
	case i.unnamed.Made != "":
		return i.Text(i.unnamed.Made), true
	case i.HasSlots() && i.HasNoFile():
		return i.Text(strings.TrimSuffix(i.Name(), "]") + " code]"), true
	}
	return 0, false
}

// Text returns the number of a frame that is only text.
func (i *Interpreter) Text(text string) unwind.CodeID { return i.functions.text(text, time.Now()) }

// CodeAt is a code object of a process, as a sample has it. With Address 0 there is none.
type CodeAt struct{ Address, Cookie uint64 }

// MaxReads bounds the code objects that are read for one sample. The next has the others.
const MaxReads = 64

// Carried notes the code objects that a sample of a process has names of.
func (i *Interpreter) Carried(pid uint32, codes []runtime.CodeObject) {
	now := time.Now()
	for n := range codes {
		c := &codes[n]
		if f, err := i.runs.Function(nil, c); err == nil {
			i.functions.learn(codeKey{pid, c.Address, c.Cookie}, f, now)
		}
	}
}

// Functions appends the numbers of the functions of code objects to ids. It reads those that are not known from the
// process, if that still is there. Places where frames are in them, and cannot be, become one: the end.
func (i *Interpreter) Functions(
	t *Tracker, pid uint32, codes []CodeAt, places []uint64, ids []unwind.CodeID,
) []unwind.CodeID {
	now := time.Now()
	known, missing := i.functions.lookUpAll(pid, codes, places, ids, MaxReads, now)
	if len(missing) == 0 || !i.read(t, pid, missing) {
		return known
	}
	known, _ = i.functions.lookUpAll(pid, codes, places, ids, 0, now)
	return known
}

// ReadPatience is how long the memory of a process is waited for, see Tracker.SetReadPatience.
const ReadPatience = 20 * time.Millisecond

// read reads code objects from the process. It reports whether anything was read.
func (i *Interpreter) read(t *Tracker, pid uint32, codes []CodeAt) bool {
	memory := t.exes.interpreters.reads.memory(pid)
	if memory.few() {
		t.failed(memory.tooMany())
		return false
	}
	t.readWithin(memory, "functions", func() bool {
		for _, c := range codes {
			if !i.readOne(memory, c) {
				return false
			}
		}
		return true
	})
	return true
}

// readWithin runs work that reads the memory of a process, which returns false when it has used up the reads. It
// reports whether the work is done; if not, it may still go on.
func (t *Tracker) readWithin(memory boundedMemory, kind string, work func() bool) bool {
	turn, began := &memory.own.turn, time.Now()
	if !turn.take(began) {
		t.failed(memory.tooLate())
		return false
	}
	what := fmt.Sprintf("reading %s of process %d", kind, memory.PID)
	_, err := filework.Get(t.exes.work, memoryOf(t.fs, memory.PID), what, t.patience, func() (struct{}, error) {
		enough := work()
		now := time.Now()
		turn.give(now.Sub(began), t.patience, now)
		if !enough {
			return struct{}{}, memory.tooMany()
		}
		return struct{}{}, nil
	}, nil)
	if filework.Refused(err) {
		turn.give(0, t.patience, began)
	}
	t.failed(err)
	return err == nil
}

// readOne reads a code object. What is there now is the one of the sample only if its cookie
// is, before and afterwards. It returns false if too few reads were left.
func (i *Interpreter) readOne(m boundedMemory, c CodeAt) bool {
	now, key, refused := time.Now(), codeKey{m.PID, c.Address, c.Cookie}, m.refused()
	layout := i.runs.Spec().Layout()
	cookie, ok := cookieAt(layout, m, c.Address)
	same := !ok || cookie == c.Cookie
	var f runtime.Function
	if same {
		var err error
		f, err = i.runs.Function(m, &runtime.CodeObject{Address: c.Address, Cookie: c.Cookie})
		cookie, ok = cookieAt(layout, m, c.Address)
		same = err == nil && (!ok || cookie == c.Cookie)
	}
	switch {
	case m.refused() != refused:
		return false
	case same:
		f.Whole = true // there is no more
		i.functions.learn(key, f, now)
	default:
		m.senseless()
		i.functions.giveUp(key, now)
	}
	return true
}

// cookieAt returns the cookie of a code object now; false if it has words that are elsewhere.
// One that cannot be read is 0.
func cookieAt(l *runtime.Layout, m runtime.Memory, code uint64) (cookie uint64, ok bool) {
	if l.Code < 0 {
		return 0, false
	}
	b := blocksOf{layout: l, memory: m, code: code}
	var words []uint64
	for _, w := range l.Cookie {
		if !l.FromCode(w.Block) {
			return 0, false
		}
		v, ok := b.word(w)
		if !ok {
			return 0, true
		}
		words = append(words, v)
	}
	return runtime.Fold(words), true
}

// blocksOf are the blocks that the way to leads from a code object, read once each.
type blocksOf struct {
	layout *runtime.Layout
	memory runtime.Memory
	code   uint64
	read   [runtime.MaxBlocks][]byte
}

// word returns a word of a block, and false if it cannot be read.
func (b *blocksOf) word(w runtime.Word) (v uint64, ok bool) {
	block := &b.layout.Blocks[w.Block]
	if b.read[w.Block] == nil {
		at := b.code
		if !b.layout.IsCode(block.At) {
			if at, ok = b.word(block.At); !ok || at == 0 {
				return 0, false
			}
		}
		bytes := make([]byte, block.Bytes)
		if _, err := b.memory.ReadAt(bytes, int64(at+uint64(block.Offset))); err != nil {
			return 0, false
		}
		b.read[w.Block] = bytes
	}
	v = binary.LittleEndian.Uint64(b.read[w.Block][w.Offset:])
	if w.Mask != 0 {
		v &= w.Mask
	}
	return v, true
}

// interpretation is an interpreter in a process.
type interpretation struct {
	exe     *Executable // whose file has it, mapped by the process
	library runtime.Interpreted
	bias    uint64
	dev     uint64 // of the file
	inode   uint64

	interpreter *Interpreter // nil: not known yet
	busy        bool         // it is being asked for
	failed      bool         // it will never be known
	first       time.Time    // when it was asked for at first
	tried       time.Time    // and at last

	doubt *doubt // about its code objects
}

// interpret notes that a process has mapped an executable that may be an interpreter. It
// reports whether that is to be asked.
func (p *Process) interpret(e *Executable, m *mapping, file *procfs.Mapping) bool {
	if m.exe == nil {
		return false
	}
	library, ok := e.library.(runtime.Interpreted)
	if ok = ok && (p.interpretation == nil || p.interpretation.yields(library)); ok {
		p.interpretation = &interpretation{
			exe: e, library: library, bias: m.bias, dev: file.Dev, inode: file.Inode, doubt: &doubt{},
		}
	}
	return ok
}

// yields reports whether a process that has another library, too, has the frames of that.
func (i *interpretation) yields(other runtime.Interpreted) bool {
	_, never := i.library.(runtime.Unnamed)
	_, neither := other.(runtime.Unnamed)
	return never && !neither
}

// inherit returns what a child has of it.
func (i *interpretation) inherit() *interpretation {
	if i == nil {
		return nil
	}
	child := *i
	child.busy, child.first, child.tried, child.doubt = false, time.Time{}, time.Time{}, &doubt{}
	return &child
}

// open reports whether the interpreter is still to be asked for.
func (i *interpretation) open() bool { return i != nil && i.interpreter == nil && !i.failed }

// pause is how long one that was not ready is not asked again.
func (i *interpretation) pause(now time.Time) time.Duration {
	return min(max(retryAttach, now.Sub(i.first)/4), maxPause)
}

// interpretations returns the commands that ask interpreters how their frames are found.
func (s *state) interpretations(now time.Time) (commands []Command) {
	waiting := s.interpreting[:0]
	for _, p := range s.interpreting {
		i := p.interpretation
		if s.processes[p.PID] != p || p.ended != 0 || !i.open() {
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
	read := func() (runtime.Interpreter, error) {
		return i.library.Interpret(runtime.Process{PID: pid, Bias: i.bias, Memory: t.fs.Memory(pid)})
	}
	runs, err := filework.Get(t.exes.work, memoryOf(t.fs, pid), what, t.exes.patience, read, nil)
	var unnamed *runtime.UnnamedError
	var slow *filework.SlowError
	switch {
	case errors.Is(err, runtime.ErrNotReady), errors.As(err, &slow):
		return interpreted{interpret: c, retry: true}
	case errors.As(err, &unnamed):
		made, err := t.exes.interpreter(i.library, nil, *unnamed)
		t.failed(err)
		return interpreted{interpret: c, made: made}
	case err != nil:
		if !procfs.Gone(err) && !errors.Is(err, runtime.ErrUnknown) {
			t.note(err)
		}
		return interpreted{interpret: c}
	}
	made, err := t.exes.interpreter(i.library, runs, runtime.UnnamedError{})
	if err == nil && runs.Spec().Everywhere {
		err = t.setProgram(pid, i, made)
	}
	t.failed(err)
	return interpreted{interpret: c, made: made}
}

// setProgram lets processes of the same program have the interpreter from their beginning on.
func (t *Tracker) setProgram(pid uint32, i *interpretation, made *Interpreter) error {
	var st unix.Stat_t
	if unix.Stat(t.fs.Exe(pid), &st) != nil || st.Dev != i.dev || st.Ino != i.inode {
		return nil // it is a library of the program
	}
	start, err := t.fs.StartCode(pid)
	if err != nil || start == 0 {
		return nil // it has gone, or may not be asked
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

// interpreted says whether the interpreter of a process is known now.
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

// sweepInterpreters forgets those that no process has had for a while, and functions that were
// not met lately.
func (t *Tracker) sweepInterpreters(now time.Time) {
	had := map[*Interpreter]bool{}
	t.mu.Lock()
	for _, p := range t.state.processes {
		if p.interpretation != nil {
			had[p.interpretation.interpreter] = true
		}
		for _, old := range p.previous {
			if old.interpretation != nil {
				had[old.interpretation.interpreter] = true
			}
		}
	}
	t.mu.Unlock()
	x := &t.exes.interpreters
	x.reads.trim(now)
	if x.room.refused() > 0 {
		t.failed(limit.Hit(limit.Functions, errRoom))
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	kept := x.all[:0]
	for _, i := range x.all {
		i.functions.trim(now.Add(-interpreterRest))
		i.machine.trim(now.Add(-interpreterRest))
		if had[i] {
			i.used = now
		}
		if now.Sub(i.used) < i.rest() {
			kept = append(kept, i)
			continue
		}
		t.forgetInterpreter(i)
	}
	clear(x.all[len(kept):])
	x.all = kept
}

func (i *Interpreter) rest() time.Duration {
	if i.runs != nil && i.runs.Spec().Everywhere {
		return everywhereRest
	}
	return interpreterRest
}

// forgetInterpreter forgets one. The registry is locked.
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

// Interpreter returns the interpreter whose functions an executable stands for, and false for
// a file.
func (t *Tracker) Interpreter(exe unwind.ExeID) (*Interpreter, bool) {
	t.exes.mu.Lock()
	defer t.exes.mu.Unlock()
	i, ok := t.exes.interpreters.byExe[exe]
	return i, ok
}

// Interpretation is what is known of the interpreter of a process.
type Interpretation struct {
	*Interpreter // nil: not known
	exe          unwind.ExeID
	library      runtime.Interpreted
	bias         uint64     // of its file
	code         []*JITCode // of the process
	pid          uint32
	doubt        *doubt
}

// Interpretation returns the interpreter that a process has, and false if it has none.
func (v *View) Interpretation() (Interpretation, bool) {
	i := v.interpretation
	if i == nil {
		return Interpretation{}, false
	}
	return Interpretation{v.interpreter, i.exe.ID, i.library, i.bias, v.code, v.pid, i.doubt}, true
}

// ReadChain reads the frames that the interpreter keeps of a thread of the process, leaf first, and says how they end.
// There are none if it keeps no chain.
func (i *Interpretation) ReadChain(tid uint32, threadPointer uint64, m chain.Memory,
	use func(words []uint64, cookie uint64)) runtime.ChainEnd {
	if i.Interpreter == nil || i.runs == nil || i.runs.Spec().Chain == nil {
		return runtime.ChainNone
	}
	return chain.Walk(i.runs.Spec().Chain, chain.Thread{Pointer: threadPointer, ID: tid, Bias: i.bias}, m, use)
}

// File returns the executable that the interpreter is in.
func (i *Interpretation) File() unwind.ExeID { return i.exe }

// Evaluates reports whether a frame runs functions of the language.
func (i *Interpretation) Evaluates(exe unwind.ExeID, vaddr uint64) bool {
	if exe == i.exe {
		return holds(i.library.Evaluation(), vaddr)
	}
	at := slices.IndexFunc(i.code, func(c *JITCode) bool { return c.Exe() == exe })
	return at >= 0 && i.code[at].Evaluates(vaddr)
}

// Enters reports whether a leaf that evaluates may have no frames of its own yet, or none any more;
// known is false if that is not known of any address.
func (i *Interpretation) Enters(vaddr uint64) (enters, known bool) {
	ranges := i.library.Entering()
	return holds(ranges, vaddr), len(ranges) > 0
}

func holds(ranges []runtime.Range, vaddr uint64) bool {
	for _, r := range ranges {
		if r.Holds(vaddr) {
			return true
		}
	}
	return false
}

// Rests reports whether functions of the process are not looked up for a while: it has wanted too many for minutes, or
// they became others all the time, as those of processes do that write nonsense where functions are read.
func (i *Interpretation) Rests(t *Tracker) bool {
	now := time.Now()
	return i.doubt.rests(now) || t.exes.interpreters.reads.rest(i.pid, now)
}

// Judge lets the process rest if what was met of its functions for a sample is wrong again and again.
func (i *Interpretation) Judge(t *Tracker, by *Interpreter) {
	if rest := i.doubt.judge(by.functions.takeNews(i.pid), time.Now()); rest > 0 {
		t.failed(limit.Hit(limit.Functions, spoilt(i.pid, rest)))
	}
}

// Unread returns the number of the frame that stands for those that are not looked up.
func (i *Interpretation) Unread() unwind.CodeID {
	return i.Text(strings.TrimSuffix(i.Name(), "]") + " code, not read]")
}

// InterpreterOf returns the interpreter that a sample has the number of; nil if it is not known
// any more.
func (t *Tracker) InterpreterOf(id uint32) *Interpreter {
	x := &t.exes.interpreters
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.byID[id]
}

// Is reports whether a sample of the process may have frames of i: the interpreter that the
// process has, or as long as that is not known one of the same file.
func (i *Interpretation) Is(of *Interpreter) bool {
	return i.Interpreter == of || i.Interpreter == nil && of.library == i.library
}
