package engine

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/headwater/headwater/ebpf/language"
	"github.com/headwater/headwater/ebpf/unwind"
)

// TestFunctions: an address has another function after its cookie has changed. Equal functions of many processes are
// one function. Functions that were not seen recently are forgotten, and no number is used again.
func TestFunctions(t *testing.T) {
	f := newFunctions(newRoom())
	begin := time.Now()
	key := codeKey{pid: 1, code: 0x1000, cookie: 7}
	id := f.learn(key, language.Function{Name: "first", Whole: true}, begin)
	if got, whole := f.lookUp(key, begin); got != id || !whole {
		t.Errorf("function %d, whole %v, want %d, true", got, whole, id)
	}
	reused := codeKey{pid: 1, code: 0x1000, cookie: 8}
	if got, _ := f.lookUp(reused, begin); got != unwind.UnknownCode {
		t.Errorf("code with another cookie is function %d, want one that is not known", got)
	}
	if other := f.learn(reused, language.Function{Name: "second"}, begin); other == id {
		t.Error("two functions have one number")
	}
	if _, whole := f.lookUp(reused, begin); whole {
		t.Error("a function that was cut off is not to be read")
	}
	f.giveUp(reused, begin)
	if _, whole := f.lookUp(reused, begin); !whole {
		t.Error("a function is to be read that cannot be")
	}
	elsewhere := codeKey{pid: 2, code: 0x2000, cookie: 9}
	if same := f.learn(elsewhere, language.Function{Name: "first", Whole: true}, begin.Add(time.Minute)); same != id {
		t.Errorf("the same function of another process is %d, want %d", same, id)
	}

	f.trimUnused(begin.Add(time.Second))
	if _, whole := f.lookUp(key, begin); whole {
		t.Error("a code object that was not met is remembered")
	}
	if got := f.getFunction(id); got == nil || got.Name != "first" {
		t.Errorf("function %d is %+v, though a process met it", id, got)
	}
	f.trimUnused(begin.Add(time.Hour))
	if len(f.byID)+len(f.same)+len(f.codes)+f.room.bytes+len(f.room.of) != 0 {
		t.Errorf("%d functions of %d bytes and %d code objects are left", len(f.byID), f.room.bytes, len(f.codes))
	}
	if next := f.learn(key, language.Function{Name: "first"}, begin); next <= id {
		t.Errorf("number %d was used before", next)
	}
}

// TestRoom: the memory for names of processes of several interpreters stays within their common bound. A process that
// has less than other processes gets room.
func TestRoom(t *testing.T) {
	r := newRoom()
	one, two, machine := newFunctions(r), newFunctions(r), machineCodes{room: r}
	r.addHolders(&one, &two, &machine)
	now := time.Now()
	learn := func(f *functions, pid uint32, n int) unwind.CodeID {
		table := make([]byte, language.MaxTable)
		table[0], table[1], table[2], table[3] = byte(n), byte(n>>8), byte(n>>16), byte(pid)
		return f.learn(codeKey{pid: pid, code: uint64(n)}, language.Function{Name: "f", Table: table, Whole: true}, now)
	}
	for n := range 2 * MaxRemembered / (2 * language.MaxTable) {
		learn(&one, 1, n)
		machine.noteCode(1, machineCode{low: uint64(n) << 8, high: uint64(n)<<8 + 1, used: now})
	}
	if r.bytes > MaxRemembered || r.bytes < MaxRemembered*9/10 || r.refused() == 0 {
		t.Errorf("%d bytes, want almost %d", r.bytes, MaxRemembered)
	}
	now = now.Add(evictPause)
	if id := learn(&two, 2, 0); id == unwind.UnknownCode {
		t.Error("a process that has nothing yet gets no room")
	}
	if id, whole := one.lookUp(codeKey{pid: 1, code: 0}, now); id != unwind.UnknownCode || whole {
		t.Errorf("function %d of what had to go, whole %v", id, whole)
	}
	for n := range 2 * MaxRemembered / (2 * language.MaxTable) {
		learn(&one, 1, n)
		now = now.Add(evictPause / 2)
		learn(&two, 2, 0)
	}
	if id, _ := two.lookUp(codeKey{pid: 2, code: 0}, now); id == unwind.UnknownCode || r.bytes > MaxRemembered {
		t.Errorf("function %d of the process that has little, %d bytes", id, r.bytes)
	}
	large := language.Function{Table: make([]byte, language.MaxTable+1)}
	if id := one.addFunction(1, large, now); id != unwind.UnknownCode {
		t.Error("a table beyond the bound was taken")
	}
	r.remove(&one, &two, &machine)
	if r.bytes != 0 || len(r.of)+len(r.holders) != 0 {
		t.Errorf("%d bytes are left, of %v", r.bytes, r.of)
	}
}

// TestKnownAt: a code object counts as there from the time when it was first seen.
func TestKnownAt(t *testing.T) {
	f, key := newFunctions(newRoom()), codeKey{pid: 1, code: 2, cookie: 3}
	now := time.Now()
	f.learn(key, language.Function{Name: "f"}, now)
	met := time.Now()
	f.learn(key, language.Function{Name: "f", Whole: true}, met)
	f.giveUp(codeKey{pid: 1, code: 2, cookie: 4}, now)
	for _, c := range []struct {
		cookie uint64
		when   time.Time
		known  bool
	}{{3, now, false}, {3, met.Add(1), true}, {4, met.Add(time.Hour), false}, {5, met.Add(time.Hour), false}} {
		if got := f.knownAt(codeKey{pid: 1, code: 2, cookie: c.cookie}, c.when); got != c.known {
			t.Errorf("cookie %d, %v after: %v", c.cookie, c.when.Sub(now), got)
		}
	}
}

// TestCrowd: a process that keeps creating functions does not displace the functions that another process has or gets.
func TestCrowd(t *testing.T) {
	r := newRoom()
	f := newFunctions(r)
	r.addHolders(&f)
	now := time.Now()
	good := func(n int) codeKey { return codeKey{pid: 1, code: uint64(n), cookie: 7} }
	f.learn(good(0), language.Function{Name: "good 0", Whole: true}, now)
	for n := range 1 << 18 {
		now = now.Add(time.Second / 3000)
		f.learn(codeKey{pid: 2, code: uint64(n), cookie: 7}, language.Function{Name: fmt.Sprint(n), Whole: true}, now)
		if n%3000 != 0 {
			continue
		}
		for k := range 1 + n/30000 {
			if id, _ := f.lookUp(good(k), now); id == unwind.UnknownCode {
				id = f.learn(good(k), language.Function{Name: fmt.Sprint("good ", k), Whole: true}, now)
				if id == unwind.UnknownCode {
					t.Fatalf("after %d of the other's, function %d has no room", n, k)
				}
				if k == 0 {
					t.Fatalf("after %d of the other's, one that is met each second was forgotten", n)
				}
			}
		}
	}
}

// TestPlaces: all offsets past the end of a function become one. All other offsets stay as they are.
func TestPlaces(t *testing.T) {
	f := newFunctions(newRoom())
	now := time.Now()
	f.learn(codeKey{1, 0x1000, 1}, language.Function{Name: "short", Whole: true, Bytes: 10}, now)
	f.learn(codeKey{1, 0x2000, 1}, language.Function{Name: "of unknown length", Whole: true}, now)
	short, unknown, notMet := CodeAt{0x1000, 1}, CodeAt{0x2000, 1}, CodeAt{0x3000, 1}
	codes := []CodeAt{short, short, short, short, short, unknown, notMet, {}}
	places := []uint64{0, 8, 10, 1 << 40, language.NoIP, 1 << 40, 1 << 40, 5}
	ids, missing := f.lookUpAll(1, codes, places, nil, MaxReads, now)
	if want := []uint64{0, 8, 10, 10, language.NoIP, 1 << 40, 1 << 40, 5}; !slices.Equal(places, want) {
		t.Errorf("places %v, want %v", places, want)
	}
	if len(ids) != len(codes) || ids[0] != ids[4] || ids[0] == ids[5] || ids[6] != unwind.UnknownCode ||
		!slices.Equal(missing, []CodeAt{notMet}) {
		t.Errorf("functions %v, %v are missing", ids, missing)
	}
}
