package kernel

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
)

// MaxCopies is the number of threads whose stacks can be copied when they leave a CPU.
const MaxCopies = 1 << 9 // MAX_COPIED of bpf/abi/threads.h

// leaving copies the stacks of threads when they leave a CPU.
type leaving struct {
	objects leavingObjects
	hook    link.Link
	watch   uint32            // number of the last watch
	rooms   map[uint32]uint32 // by thread ID
	free    []uint32          // not in use, in the order of their release
}

// CopyStacks makes room for the stacks of a number of threads, at most MaxCopies; WatchLeaving has them copied. It
// slightly slows down every context switch on this host.
func (t *Threads) CopyStacks(rooms int) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.leaving != nil {
		return nil
	}
	l := &leaving{rooms: map[uint32]uint32{}}
	if err := l.openProgram(&t.objects, min(rooms, MaxCopies)); err != nil {
		return errors.Join(fmt.Errorf("copy stacks of threads: %w", err), l.close())
	}
	t.leaving = l
	return nil
}

func (l *leaving) openProgram(threads *threadsObjects, rooms int) error {
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

// closeLeaving undoes CopyStacks.
func (t *Threads) closeLeaving() error {
	if t.leaving == nil {
		return nil
	}
	return t.leaving.close()
}

// WatchLeaving has the stacks of threads copied whenever the threads leave a CPU, until the next ReadMarked has met
// them or has ended. It leaves out threads beyond the room that CopyStacks has made. Only the goroutine that calls
// ReadMarked may call it.
func (t *Threads) WatchLeaving(tids []uint32) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	l := t.leaving
	if l == nil {
		return nil
	}
	if err := l.giveRooms(&t.objects, tids); err != nil {
		return fmt.Errorf("copy stacks of threads: %w", err)
	}
	l.watch = max(1, l.watch+1)
	return t.setWatch(l.watch)
}

// setWatch starts a watch, or ends the current one if number is 0.
func (t *Threads) setWatch(number uint32) error {
	if err := t.objects.Watches.Put(uint32(0), number); err != nil {
		return fmt.Errorf("copy stacks of threads: %w", err)
	}
	return nil
}

// giveRooms assigns rooms to threads, and frees the rooms of all other threads.
func (l *leaving) giveRooms(o *threadsObjects, tids []uint32) error {
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

// StackCopy is a copy of the user stack that a thread had when it left a CPU. It starts at the page of the red zone
// below the stack pointer.
type StackCopy struct {
	base  uint64
	pages uint32
	bytes []byte
}

// Page returns the page of memory at an address, nil if the copy lacks it.
func (c *StackCopy) Page(addr uint64) []byte {
	at := addr - c.base
	if addr < c.base || at >= uint64(len(c.bytes)) || addr%stackPage != 0 || c.pages>>(at/stackPage)&1 == 0 {
		return nil
	}
	return c.bytes[at:][:stackPage:stackPage]
}

// CopiedStack returns the copied stack of a thread of the last ReadMarked, nil unless its Copied is set. It can be read
// until the next WatchLeaving. The caller owns the result.
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
		return nil, nil // the copy is of another moment
	}
	return &StackCopy{base: after.From, pages: after.Pages, bytes: bytes}, nil
}
