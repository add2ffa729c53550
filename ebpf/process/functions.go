package process

import (
	"slices"
	"time"

	"github.com/headwater/headwater/ebpf/runtime"
	"github.com/headwater/headwater/ebpf/unwind"
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
	room  *room // its mutex guards the rest
	next  unwind.CodeID
	byID  map[unwind.CodeID]*function
	same  map[functionText]unwind.CodeID
	codes map[codeKey]*code
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
	pid  uint32 // of the process that it was met in first
	used time.Time
	gone bool // it was forgotten
}

// bytes is about the memory that a function takes.
func (f *function) bytes() int { return functionBytes + len(f.Name) + len(f.File) + 2*len(f.Table) }

// code is what is known of a code object.
type code struct {
	id    unwind.CodeID
	fn    *function // with that number; nil: unknown
	whole bool      // or there is no hope for more
	since time.Time // it was met before that; zero if nothing is known of it
	used  time.Time
}

func newFunctions(r *room) functions {
	return functions{
		room: r, next: unwind.UnknownCode + 1, byID: map[unwind.CodeID]*function{}, same: map[functionText]unwind.CodeID{},
		codes: map[codeKey]*code{},
	}
}

// lookUp returns the function of a code object, and whether all is known of it that will be.
func (f *functions) lookUp(key codeKey, now time.Time) (id unwind.CodeID, whole bool) {
	f.room.mu.Lock()
	defer f.room.mu.Unlock()
	return f.find(key, now)
}

func (f *functions) find(key codeKey, now time.Time) (id unwind.CodeID, whole bool) {
	c := f.codes[key]
	if c == nil {
		return unwind.UnknownCode, false
	}
	c.used = now
	if c.fn != nil {
		if c.fn.gone {
			return unwind.UnknownCode, false
		}
		c.fn.used = now
	}
	return c.id, c.whole
}

// lookUpAll appends the functions of code objects of a process to ids. Of those of which not all is known it returns
// the first, most of them.
func (f *functions) lookUpAll(
	pid uint32, codes []CodeAt, ids []unwind.CodeID, most int, now time.Time,
) (all []unwind.CodeID, missing []CodeAt) {
	f.room.mu.Lock()
	defer f.room.mu.Unlock()
	for n, c := range codes {
		if n > 0 && c == codes[n-1] { // it calls itself
			ids = append(ids, ids[len(ids)-1])
			continue
		}
		id, whole := f.find(codeKey{pid, c.Address, c.Cookie}, now)
		if !whole && c.Address != 0 && len(missing) < most && !slices.Contains(missing, c) {
			missing = append(missing, c)
		}
		ids = append(ids, id)
	}
	return ids, missing
}

// learn notes which function a code object is.
func (f *functions) learn(key codeKey, fn runtime.Function, now time.Time) unwind.CodeID {
	f.room.mu.Lock()
	defer f.room.mu.Unlock()
	id := f.add(key.pid, fn, now)
	since := time.Now()
	if before := f.codes[key]; before != nil && !before.since.IsZero() {
		since = before.since
	}
	f.note(key, &code{id: id, fn: f.byID[id], whole: fn.Whole, since: since, used: now})
	return id
}

// knownAt reports whether a code object was met before a time.
func (f *functions) knownAt(key codeKey, when time.Time) bool {
	f.room.mu.Lock()
	defer f.room.mu.Unlock()
	c := f.codes[key]
	return c != nil && !c.since.IsZero() && c.since.Before(when)
}

// giveUp notes that no more will be known of a code object than is.
func (f *functions) giveUp(key codeKey, now time.Time) {
	f.room.mu.Lock()
	defer f.room.mu.Unlock()
	if c := f.codes[key]; c != nil {
		c.whole = true
		return
	}
	f.note(key, &code{id: unwind.UnknownCode, whole: true, used: now})
}

func (f *functions) note(key codeKey, c *code) {
	if f.codes[key] != nil || f.room.take(key.pid, codeBytes, c.used) {
		f.codes[key] = c
	}
}

// text returns the number of a frame that is only text.
func (f *functions) text(text string, now time.Time) unwind.CodeID {
	f.room.mu.Lock()
	defer f.room.mu.Unlock()
	return f.add(0, runtime.Function{Name: text, Whole: true}, now)
}

// number returns the number of a function that a process has.
func (f *functions) number(pid uint32, fn runtime.Function, now time.Time) unwind.CodeID {
	f.room.mu.Lock()
	defer f.room.mu.Unlock()
	return f.add(pid, fn, now)
}

// use notes that a function was met, and reports whether it is known.
func (f *functions) use(id unwind.CodeID, now time.Time) bool {
	f.room.mu.Lock()
	defer f.room.mu.Unlock()
	fn := f.byID[id]
	if fn != nil {
		fn.used = now
	}
	return fn != nil
}

func (f *functions) add(pid uint32, fn runtime.Function, now time.Time) unwind.CodeID {
	text := functionText{fn.Name, fn.File, fn.StartLine, string(fn.Table), fn.Base}
	if id, ok := f.same[text]; ok {
		f.byID[id].used = now
		return id
	}
	added := &function{Function: fn, text: text, pid: pid, used: now}
	if len(fn.Table) > runtime.MaxTable || !f.room.take(pid, added.bytes(), now) {
		return unwind.UnknownCode
	}
	id := f.next
	f.next++
	f.byID[id] = added
	f.same[text] = id
	return id
}

// get returns a function by its number, nil if it was forgotten.
func (f *functions) get(id unwind.CodeID) *runtime.Function {
	f.room.mu.Lock()
	defer f.room.mu.Unlock()
	if fn := f.byID[id]; fn != nil {
		return &fn.Function
	}
	return nil
}

// trim forgets what was not met since a time.
func (f *functions) trim(since time.Time) {
	f.room.mu.Lock()
	defer f.room.mu.Unlock()
	f.forget(since)
}

// forget implements holder.
func (f *functions) forget(since time.Time) {
	f.forgetAll(
		func(_ codeKey, c *code) bool { return c.used.Before(since) },
		func(fn *function) bool { return fn.used.Before(since) },
	)
}

// drop implements holder. Other processes may have functions that it had first: they are read again.
func (f *functions) drop(pid uint32) {
	f.forgetAll(
		func(key codeKey, _ *code) bool { return key.pid == pid },
		func(fn *function) bool { return fn.pid == pid },
	)
}

func (f *functions) forgetAll(code func(codeKey, *code) bool, function func(*function) bool) {
	for key, c := range f.codes {
		if code(key, c) {
			delete(f.codes, key)
			f.room.give(key.pid, codeBytes)
		}
	}
	for id, fn := range f.byID {
		if function(fn) {
			fn.gone = true
			delete(f.byID, id)
			delete(f.same, fn.text)
			f.room.give(fn.pid, fn.bytes())
		}
	}
}
