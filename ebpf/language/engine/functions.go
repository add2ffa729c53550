package engine

import (
	"slices"
	"time"

	"github.com/headwater/headwater/ebpf/language"
	"github.com/headwater/headwater/ebpf/unwind"
)

// codeKey identifies a code object of a process. A later code object at the same address has another cookie.
type codeKey struct {
	pid    uint32
	code   uint64
	cookie uint64
}

// functions are the functions of an interpreter that samples have had, by number. Safe for concurrent use.
type functions struct {
	room  *room // its mutex guards the rest
	next  unwind.CodeID
	byID  map[unwind.CodeID]*function
	same  map[functionText]unwind.CodeID
	codes map[codeKey]*code
	none  code // stands for all code objects that were not seen

	latest map[codeAddress]metCode // the code object that was seen last at an address
	news   map[uint32]news         // by PID, since the last takeNews
}

// codeAddress is where a process has, or had, a code object.
type codeAddress struct {
	pid  uint32
	code uint64
}

// metCode is a code object that is remembered for longer than its function, to find processes whose code objects keep
// changing. Its memory counts against the room.
type metCode struct {
	cookie uint64
	met    time.Time
}

// latestRest is how much longer a metCode is remembered.
const latestRest = 2 * time.Minute

// functionText identifies a function. Functions with equal texts are one function, also in different processes.
type functionText struct {
	name, file string
	line       int
	table      string
	base       uint64
	bytes      uint64
}

type function struct {
	language.Function
	text functionText
	pid  uint32 // of the process in which it was seen first
	used time.Time
	gone bool // it was forgotten
}

// bytes returns the approximate memory of a function.
func (f *function) bytes() int { return functionBytes + len(f.Name) + len(f.File) + 2*len(f.Table) }

// code is the present knowledge of a code object.
type code struct {
	id    unwind.CodeID
	fn    *function // the function with that number; nil if unknown
	whole bool      // all is known that can be known
	since time.Time // time by which it had been seen; zero if it could not be read
	used  time.Time
}

func newFunctions(r *room) functions {
	return functions{
		room: r, next: unwind.UnknownCode + 1, byID: map[unwind.CodeID]*function{}, same: map[functionText]unwind.CodeID{},
		codes: map[codeKey]*code{}, none: code{id: unwind.UnknownCode},
		latest: map[codeAddress]metCode{}, news: map[uint32]news{},
	}
}

// lookUp returns the number of the function of a code object, and whether all is known that can be known.
func (f *functions) lookUp(key codeKey, now time.Time) (id unwind.CodeID, whole bool) {
	f.room.mu.Lock()
	defer f.room.mu.Unlock()
	c := f.findCode(key, now)
	return c.id, c.whole
}

func (f *functions) findCode(key codeKey, now time.Time) *code {
	c := f.codes[key]
	if c == nil || c.fn != nil && c.fn.gone {
		return &f.none
	}
	c.used = now
	if c.fn != nil {
		c.fn.used = now
	}
	return c
}

// place returns the offset of a frame in its function. Offsets past the end of the function are invalid and random;
// place maps them all to the end.
func (c *code) place(ip uint64) uint64 {
	if c.fn == nil || c.fn.Bytes == 0 || ip < c.fn.Bytes || ip > behindAll {
		return ip
	}
	return c.fn.Bytes
}

// behindAll is above all offsets in functions, and below NoIP and other values for a missing offset.
const behindAll = 1 << 62

// lookUpAll appends the numbers of the functions of a process's code objects to ids, and corrects invalid offsets in
// places. It returns the first code objects that are not completely known, at most most.
func (f *functions) lookUpAll(
	pid uint32, codes []CodeAt, places []uint64, ids []unwind.CodeID, most int, now time.Time,
) (all []unwind.CodeID, missing []CodeAt) {
	f.room.mu.Lock()
	defer f.room.mu.Unlock()
	var found *code
	for n, c := range codes {
		if n == 0 || c != codes[n-1] { // otherwise the function calls itself
			found = f.findCode(codeKey{pid, c.Address, c.Cookie}, now)
			if !found.whole && c.Address != 0 && len(missing) < most && !slices.Contains(missing, c) {
				missing = append(missing, c)
			}
		}
		ids = append(ids, found.id)
		places[n] = found.place(places[n])
	}
	return ids, missing
}

// learn notes the function of a code object.
func (f *functions) learn(key codeKey, fn language.Function, now time.Time) unwind.CodeID {
	f.room.mu.Lock()
	defer f.room.mu.Unlock()
	id := f.addFunction(key.pid, fn, now)
	since := time.Now()
	if before := f.codes[key]; before != nil && !before.since.IsZero() {
		since = before.since
	}
	f.noteCode(key, &code{id: id, fn: f.byID[id], whole: fn.Whole, since: since, used: now})
	return id
}

// knownAt reports whether a code object was seen before a time.
func (f *functions) knownAt(key codeKey, when time.Time) bool {
	f.room.mu.Lock()
	defer f.room.mu.Unlock()
	c := f.codes[key]
	return c != nil && !c.since.IsZero() && c.since.Before(when)
}

// giveUp notes that a code object will never be known better.
func (f *functions) giveUp(key codeKey, now time.Time) {
	f.room.mu.Lock()
	defer f.room.mu.Unlock()
	if c := f.codes[key]; c != nil {
		c.whole = true
		return
	}
	f.noteCode(key, &code{id: unwind.UnknownCode, whole: true, used: now})
}

func (f *functions) noteCode(key codeKey, c *code) {
	if f.codes[key] != nil {
		f.codes[key] = c
		return
	}
	if !f.room.takeBytes(key.pid, codeBytes, c.used) {
		return
	}
	f.codes[key] = c
	at, n := codeAddress{key.pid, key.code}, f.news[key.pid]
	before, met := f.latest[at]
	n.fresh++
	if met && before.cookie != key.cookie || c.since.IsZero() {
		n.wrong++
	}
	f.news[key.pid] = n
	if met || f.room.takeBytes(key.pid, metBytes, c.used) {
		f.latest[at] = metCode{key.cookie, c.used}
	}
}

// takeNews returns the news of a process since the last call.
func (f *functions) takeNews(pid uint32) news {
	f.room.mu.Lock()
	defer f.room.mu.Unlock()
	n, ok := f.news[pid]
	if ok {
		delete(f.news, pid)
	}
	return n
}

// addText returns the number of a frame that is only text.
func (f *functions) addText(text string, now time.Time) unwind.CodeID {
	f.room.mu.Lock()
	defer f.room.mu.Unlock()
	return f.addFunction(0, language.Function{Name: text, Whole: true}, now)
}

// number returns the number of a function of a process.
func (f *functions) number(pid uint32, fn language.Function, now time.Time) unwind.CodeID {
	f.room.mu.Lock()
	defer f.room.mu.Unlock()
	return f.addFunction(pid, fn, now)
}

// useCode notes that a function was seen, and reports whether it is known.
func (f *functions) useCode(id unwind.CodeID, now time.Time) bool {
	f.room.mu.Lock()
	defer f.room.mu.Unlock()
	fn := f.byID[id]
	if fn != nil {
		fn.used = now
	}
	return fn != nil
}

func (f *functions) addFunction(pid uint32, fn language.Function, now time.Time) unwind.CodeID {
	text := functionText{fn.Name, fn.File, fn.StartLine, string(fn.Table), fn.Base, fn.Bytes}
	if id, ok := f.same[text]; ok {
		f.byID[id].used = now
		return id
	}
	added := &function{Function: fn, text: text, pid: pid, used: now}
	if len(fn.Table) > language.MaxTable || !f.room.takeBytes(pid, added.bytes(), now) {
		return unwind.UnknownCode
	}
	id := f.next
	f.next++
	f.byID[id] = added
	f.same[text] = id
	return id
}

// getFunction returns a function by its number, or nil if it was forgotten.
func (f *functions) getFunction(id unwind.CodeID) *language.Function {
	f.room.mu.Lock()
	defer f.room.mu.Unlock()
	if fn := f.byID[id]; fn != nil {
		return &fn.Function
	}
	return nil
}

// trimUnused forgets entries that were not seen since a time.
func (f *functions) trimUnused(since time.Time) {
	f.room.mu.Lock()
	defer f.room.mu.Unlock()
	f.forget(since)
}

// forget implements holder.
func (f *functions) forget(since time.Time) {
	clear(f.news)
	for at, code := range f.latest {
		if code.met.Before(since.Add(-latestRest)) {
			delete(f.latest, at)
			f.room.giveBytes(at.pid, metBytes)
		}
	}
	f.forgetAll(
		func(_ codeKey, c *code) bool { return c.used.Before(since) },
		func(fn *function) bool { return fn.used.Before(since) },
	)
}

// dropProcess implements holder. If other processes also have functions that this one had first, they are read again.
func (f *functions) dropProcess(pid uint32) {
	f.forgetAll(
		func(key codeKey, _ *code) bool { return key.pid == pid },
		func(fn *function) bool { return fn.pid == pid },
	)
}

func (f *functions) forgetAll(code func(codeKey, *code) bool, function func(*function) bool) {
	for key, c := range f.codes {
		if code(key, c) {
			delete(f.codes, key)
			f.room.giveBytes(key.pid, codeBytes)
		}
	}
	for id, fn := range f.byID {
		if function(fn) {
			fn.gone = true
			delete(f.byID, id)
			delete(f.same, fn.text)
			f.room.giveBytes(fn.pid, fn.bytes())
		}
	}
}
