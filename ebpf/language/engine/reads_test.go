package engine

import (
	"errors"
	"os"
	"testing"
	"time"
	"unsafe"

	"github.com/headwater/headwater/ebpf/host/filework"
	"github.com/headwater/headwater/ebpf/host/procfs"
	"github.com/headwater/headwater/ebpf/language"
	"github.com/headwater/headwater/integration/testkit"
)

// swarm is an interpreter whose functions take some reads each.
type swarm struct{ language.FrameReader }

const readsOfFunction = 20

func (swarm) Spec() *language.Spec {
	return &language.Spec{Chain: &language.Chain{Frame: language.Layout{Code: -1}}}
}

func (swarm) Function(m language.Memory, c *language.CodeObject) (f language.Function, err error) {
	var b [8]byte
	for range readsOfFunction {
		if _, err := m.ReadAt(b[:], int64(c.Address)); err != nil {
			return f, err
		}
	}
	return language.Function{Name: "f"}, nil
}

// TestReads: the reads of a process that keeps creating functions are bounded, the remaining functions are read later,
// and other processes have their own reads.
func TestReads(t *testing.T) {
	r, i := newReads(procfs.Default), &Interpreter{frames: swarm{}, functions: newFunctions(newRoom())}
	var word uint64
	m := r.memory(uint32(os.Getpid()))
	code := CodeAt{Address: uint64(uintptr(unsafe.Pointer(&word)))}
	n := 0
	for ; i.readOne(m, code); n++ {
		if code.Cookie++; n > 2*MaxReadsAtOnce/readsOfFunction {
			t.Fatalf("%d functions were read at once", n)
		}
	}
	if n < MaxReadsAtOnce/readsOfFunction {
		t.Errorf("%d functions were read at once, which is too few", n)
	}
	if _, whole := i.functions.lookUp(codeKey{m.PID, code.Address, code.Cookie}, time.Now()); whole {
		t.Error("a function is given up for which no reads were left")
	}
	if !m.hasFewReads() || r.memory(m.PID) != m {
		t.Error("the process may go on")
	}
	if r.memory(1).hasFewReads() {
		t.Error("another process has no reads")
	}
	r.trimEnded(time.Now())
	if r.memory(m.PID) != m {
		t.Error("what the process has read is forgotten")
	}
	r.trimEnded(time.Now().Add(time.Hour))
	if r.memory(m.PID).hasFewReads() {
		t.Error("the process has no reads an hour later")
	}
	if _, err := m.ReadAt(make([]byte, bytesOfRead*MaxReadsAtOnce), int64(code.Address)); !errors.Is(err, errReads) {
		t.Errorf("more was read than ever may be: %v", err)
	}
}

// TestSlowdown: a process that keeps exhausting its reads gets fewer each time, until they are enough for some time.
func TestSlowdown(t *testing.T) {
	r := newReads(procfs.Default)
	own := r.memory(1).own
	now := time.Now()
	use := func(period time.Duration, wanted int) (used int) {
		for end := now.Add(period); now.Before(end); now = now.Add(20 * time.Millisecond) {
			for n := 0; n < wanted && !own.tooFew(now) && own.AllowN(now, fewReads); n++ {
				used += fewReads
			}
		}
		return used
	}
	const greedy = MaxReadsAtOnce
	if n := use(slowdownAfter, greedy); n < MaxReadsAtOnce+ReadsPerSecond*9 {
		t.Errorf("%d reads at first", n)
	}
	use(time.Minute+slowdownAfter, greedy)
	if n := use(time.Minute, greedy); n > 2*60*LeastReadsPerSecond {
		t.Errorf("%d reads in a minute of one that was greedy for more than a minute", n)
	}
	if !r.mustRest(1, now) || r.mustRest(2, now) {
		t.Error("it does not rest, or another one does")
	}
	use(10*time.Minute, 0)
	if r.mustRest(1, now) {
		t.Error("it rests after ten quiet minutes")
	}
	if n := use(slowdownAfter, greedy); n < ReadsPerSecond*9 || own.Limit() < ReadsPerSecond {
		t.Errorf("%d reads after ten quiet minutes, and %v a second", n, own.Limit())
	}
	m := newReads(procfs.Default).memory(1)
	for range 2 * MaxReadsAtOnce / senselessReads {
		m.senseless()
	}
	if !m.hasFewReads() {
		t.Error("what makes no sense takes no reads")
	}
}

// TestTurn: a process that is late is read again after the read is done and it has rested. Other processes of its user
// are read in the meantime.
func TestTurn(t *testing.T) {
	impatient := New(Config{FS: procfs.Default, Work: &filework.Pool{}, Failed: func(error) {}})
	r := newReads(procfs.Default)
	late, other := r.memory(uint32(os.Getpid())), r.memory(uint32(os.Getppid()))
	release, done := make(chan struct{}), make(chan struct{})
	if impatient.readWithin(late, "functions", func() bool { <-release; defer close(done); return true }) {
		t.Fatal("it was not late")
	}
	never := func() bool { t.Error("it is read although it was late"); return true }
	for range 100 {
		if impatient.readWithin(late, "functions", never) {
			t.Error("it is read while it is late")
		}
	}
	patient := New(impatient.Config)
	patient.SetPatience(time.Minute) // CPUs may be busy
	if !patient.readWithin(other, "functions", func() bool { return true }) {
		t.Error("another process is not read")
	}
	close(release)
	<-done
	turn := &late.own.turn
	busy := func() bool {
		turn.mu.Lock()
		defer turn.mu.Unlock()
		return turn.busy
	}
	testkit.Eventually(t, "the turn is given back", func() bool { return !busy() })
	if rest := turn.rest; rest < ReadPatience || turn.takeTurn(turn.until.Add(-1)) || !turn.takeTurn(turn.until) {
		t.Errorf("it rests for %v, or for longer or less long", rest)
	}
}

// TestTurnAgain: rests become longer each time a process is late again, up to a bound.
func TestTurnAgain(t *testing.T) {
	var turn turn
	now, took := time.Now(), 2*ReadPatience
	for n, want := range []time.Duration{1, 2, LateReadShare, LateReadShare} {
		if !turn.takeTurn(now) || turn.takeTurn(now) {
			t.Fatal("it has no turn, or two")
		}
		turn.giveTurn(took, ReadPatience, now)
		if got := turn.until.Sub(now); got != want*took {
			t.Errorf("late %d times, it rests for %v, want %v", n+1, got, want*took)
		}
		now = turn.until
	}
	now = now.Add(lateMemory)
	turn.takeTurn(now)
	turn.giveTurn(took, ReadPatience, now)
	if got := turn.until.Sub(now); got != took {
		t.Errorf("after a while it rests for %v", got)
	}
	now = turn.until
	turn.takeTurn(now)
	turn.giveTurn(ReadPatience, ReadPatience, now)
	if !turn.takeTurn(now) {
		t.Error("it rests although it was not late")
	}
}
