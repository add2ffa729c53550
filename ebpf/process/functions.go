package process

import (
	"sync"
	"time"

	"github.com/headwater/headwater/ebpf/runtime"
	"github.com/headwater/headwater/ebpf/unwind"
)

// Bounds of what is remembered of the functions of one interpreter. What has no room is shown
// without a name, unless others go that were not met lately: a process that has ever new ones
// does not keep others from theirs.
const (
	MaxFunctions     = 1 << 17
	MaxFunctionBytes = 64 << 20
	maxCodes         = 1 << 18 // code objects of all its processes
	crowdedRest      = 20 * time.Second
	crowdedPause     = 10 * time.Second
)

// codeKey is a code object of a process. Its address may be another one's later, which then
// has another cookie.
type codeKey struct {
	pid    uint32
	code   uint64
	cookie uint64
}

// functions are those that were met of an interpreter, by number. Safe for concurrent use.
type functions struct {
	mu    sync.Mutex
	next  unwind.CodeID
	byID  map[unwind.CodeID]*function
	same  map[functionText]unwind.CodeID
	codes map[codeKey]*code
	bytes int
	made  time.Time // when room was made last

	dropped uint64 // functions that there was no room for
}

// functionText is what makes two functions one: those of many processes are.
type functionText struct {
	name, file string
	line       int
	table      string
	base       uint64
}

type function struct {
	runtime.Function
	text functionText
	used time.Time
}

// code is what is known of a code object.
type code struct {
	id    unwind.CodeID
	whole bool      // or there is no hope for more
	since time.Time // it was met before that; zero if nothing is known of it
	used  time.Time
}

func newFunctions() functions {
	return functions{
		next: unwind.UnknownCode + 1, byID: map[unwind.CodeID]*function{}, same: map[functionText]unwind.CodeID{},
		codes: map[codeKey]*code{},
	}
}

// lookUp returns the function of a code object, and whether all is known of it that will be.
func (f *functions) lookUp(key codeKey, now time.Time) (id unwind.CodeID, whole bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	c := f.codes[key]
	if c == nil {
		return unwind.UnknownCode, false
	}
	c.used = now
	if fn := f.byID[c.id]; fn != nil {
		fn.used = now
	}
	return c.id, c.whole
}

// learn notes which function a code object is.
func (f *functions) learn(key codeKey, fn runtime.Function, now time.Time) unwind.CodeID {
	f.mu.Lock()
	defer f.mu.Unlock()
	id := f.add(fn, now)
	since := time.Now()
	if before := f.codes[key]; before != nil && !before.since.IsZero() {
		since = before.since
	}
	f.note(key, &code{id: id, whole: fn.Whole, since: since, used: now})
	return id
}

// knownAt reports whether a code object was met before a time.
func (f *functions) knownAt(key codeKey, when time.Time) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	c := f.codes[key]
	return c != nil && !c.since.IsZero() && c.since.Before(when)
}

// giveUp notes that no more will be known of a code object than is.
func (f *functions) giveUp(key codeKey, now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if c := f.codes[key]; c != nil {
		c.whole = true
		return
	}
	f.note(key, &code{id: unwind.UnknownCode, whole: true, used: now})
}

func (f *functions) note(key codeKey, c *code) {
	if len(f.codes) >= maxCodes {
		f.makeRoom(c.used)
	}
	if len(f.codes) < maxCodes || f.codes[key] != nil {
		f.codes[key] = c
	}
}

// text returns the number of a frame that is only text.
func (f *functions) text(text string, now time.Time) unwind.CodeID {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.add(runtime.Function{Name: text, Whole: true}, now)
}

// number returns the number of a function.
func (f *functions) number(fn runtime.Function, now time.Time) unwind.CodeID {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.add(fn, now)
}

// use notes that a function was met, and reports whether it is known.
func (f *functions) use(id unwind.CodeID, now time.Time) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	fn := f.byID[id]
	if fn != nil {
		fn.used = now
	}
	return fn != nil
}

func (f *functions) add(fn runtime.Function, now time.Time) unwind.CodeID {
	text := functionText{fn.Name, fn.File, fn.StartLine, string(fn.Table), fn.Base}
	if id, ok := f.same[text]; ok {
		f.byID[id].used = now
		return id
	}
	bytes := len(fn.Name) + len(fn.File) + 2*len(fn.Table)
	if len(f.byID) >= MaxFunctions || f.bytes+bytes > MaxFunctionBytes {
		f.makeRoom(now)
	}
	if len(f.byID) >= MaxFunctions || f.bytes+bytes > MaxFunctionBytes || len(fn.Table) > runtime.MaxTable {
		f.dropped++
		return unwind.UnknownCode
	}
	id := f.next
	f.next++
	f.byID[id] = &function{Function: fn, text: text, used: now}
	f.same[text] = id
	f.bytes += bytes
	return id
}

// get returns a function by its number, nil if it was forgotten.
func (f *functions) get(id unwind.CodeID) *runtime.Function {
	f.mu.Lock()
	defer f.mu.Unlock()
	if fn := f.byID[id]; fn != nil {
		return &fn.Function
	}
	return nil
}

// makeRoom forgets what was not met lately, though it would be remembered longer if there were room.
func (f *functions) makeRoom(now time.Time) {
	if now.Sub(f.made) >= crowdedPause {
		f.made = now
		f.forget(now.Add(-crowdedRest))
	}
}

// trim forgets what was not met since a time.
func (f *functions) trim(since time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.forget(since)
}

func (f *functions) forget(since time.Time) {
	for key, c := range f.codes {
		if c.used.Before(since) {
			delete(f.codes, key)
		}
	}
	for id, fn := range f.byID {
		if fn.used.Before(since) {
			delete(f.byID, id)
			delete(f.same, fn.text)
			f.bytes -= len(fn.Name) + len(fn.File) + 2*len(fn.Table)
		}
	}
}
