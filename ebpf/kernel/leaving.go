package kernel

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
)

// MaxCopies is of how many threads stacks can be copied when they leave a CPU.
const MaxCopies = 1 << 9 // MAX_COPIED of bpf/threads.h

// leaving copies the stacks of threads when they leave a CPU.
type leaving struct {
	objects leavingObjects
	hook    link.Link
	watch   uint32            // number of the last watch
	rooms   map[uint32]uint32 // by thread
	free    []uint32          // rooms of nobody. That which was left first is given first
}

// CopyStacks makes room for the stacks of that many threads, at most MaxCopies, which WatchLeaving has copied. Each
// switch of threads on this host pays a little for that.
func (t *Threads) CopyStacks(rooms int) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.leaving != nil {
		return nil
	}
	l := &leaving{rooms: map[uint32]uint32{}}
	if err := l.open(&t.objects, min(rooms, MaxCopies)); err != nil {
		return errors.Join(fmt.Errorf("copy stacks of threads: %w", err), l.close())
	}
	t.leaving = l
	return nil
}

func (l *leaving) open(threads *threadsObjects, rooms int) error {
	spec, err := loadLeaving()
	if err != nil {
		return err
	}
	spec.Maps[leavingMapStackCopies].MaxEntries = uint32(rooms)
	shared := &ebpf.CollectionOptions{MapReplacements: map[string]*ebpf.Map{
		leavingMapRooms: threads.Rooms, leavingMapCopiedStacks: threads.CopiedStacks, leavingMapWatches: threads.Watches,
	}}
	if err := spec.LoadAndAssign(&l.objects, shared); err != nil {
		return fmt.Errorf("load the BPF program: %w", err)
	}
	for room := range rooms {
		l.free = append(l.free, uint32(room))
	}
	l.hook, err = link.AttachRawTracepoint(link.RawTracepointOptions{
		Name: "sched_switch", Program: l.objects.CopyLeaving,
	})
	if err != nil {
		return fmt.Errorf("attach to the raw tracepoint sched_switch: %w", err)
	}
	return nil
}

func (l *leaving) close() error {
	var err error
	if l.hook != nil {
		err = l.hook.Close()
	}
	return errors.Join(err, l.objects.Close())
}

// closeLeaving ends what CopyStacks has begun.
func (t *Threads) closeLeaving() error {
	if t.leaving == nil {
		return nil
	}
	return t.leaving.close()
}

// WatchLeaving has the stacks of threads copied whenever they leave a CPU from now on, until the next ReadMarked has
// met them or is over. Of more threads than CopyStacks has made room for, some are left out. It is for the goroutine
// that calls ReadMarked.
func (t *Threads) WatchLeaving(tids []uint32) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	l := t.leaving
	if l == nil {
		return nil
	}
	if err := l.give(&t.objects, tids); err != nil {
		return fmt.Errorf("copy stacks of threads: %w", err)
	}
	l.watch = max(1, l.watch+1)
	return t.setWatch(l.watch)
}

// setWatch begins a watch, or with 0 ends the one that is under way.
func (t *Threads) setWatch(number uint32) error {
	if err := t.objects.Watches.Put(uint32(0), number); err != nil {
		return fmt.Errorf("copy stacks of threads: %w", err)
	}
	return nil
}

// give gives rooms to threads, and takes those of others.
func (l *leaving) give(o *threadsObjects, tids []uint32) error {
	wanted := map[uint32]bool{}
	for _, tid := range tids[:min(len(tids), len(l.rooms)+len(l.free))] {
		wanted[tid] = true
	}
	for tid, room := range l.rooms {
		if wanted[tid] {
			continue
		}
		if err := o.Rooms.Delete(tid); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
			return err
		}
		delete(l.rooms, tid)
		l.free = append(l.free, room)
	}
	for tid := range wanted {
		if _, has := l.rooms[tid]; has {
			continue
		}
		room := l.free[0]
		if err := o.CopiedStacks.Put(room, &leavingCopiedStack{Tid: tid}); err != nil {
			return err
		}
		if err := o.Rooms.Put(tid, room); err != nil {
			return err
		}
		l.free = l.free[1:]
		l.rooms[tid] = room
	}
	return nil
}

// StackCopy is the copy of the user stack that a thread had when it left a CPU, from the page of its stack pointer on.
type StackCopy struct {
	base  uint64
	pages uint32
	bytes []byte
}

// Page returns the page of memory at an address, nil if the copy has it not.
func (c *StackCopy) Page(addr uint64) []byte {
	at := addr - c.base
	if addr < c.base || at >= uint64(len(c.bytes)) || addr%stackPage != 0 || c.pages>>(at/stackPage)&1 == 0 {
		return nil
	}
	return c.bytes[at:][:stackPage:stackPage]
}

// CopiedStack returns the stack that a thread of the last ReadMarked had, nil unless its Copied is set. It is there
// until the next WatchLeaving. What is returned is the caller's.
func (t *Threads) CopiedStack(of *Thread) (*StackCopy, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	l := t.leaving
	if l == nil || !of.Copied {
		return nil, nil
	}
	room, ok := l.rooms[of.TID]
	if !ok {
		return nil, nil
	}
	var before, after leavingCopiedStack
	bytes := make([]byte, l.objects.StackCopies.ValueSize())
	err := errors.Join(
		t.objects.CopiedStacks.Lookup(room, &before),
		l.objects.StackCopies.Lookup(room, bytes),
		t.objects.CopiedStacks.Lookup(room, &after),
	)
	if err != nil {
		return nil, fmt.Errorf("read the copied stack of thread %d: %w", of.TID, err)
	}
	if before != after || after.Tid != of.TID || after.Started != of.Started || after.Switches != of.Switches {
		return nil, nil // it is of another moment
	}
	return &StackCopy{base: after.From, pages: after.Pages, bytes: bytes}, nil
}
