package kernel

import (
	"errors"
	"fmt"
	"os"
	"time"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/cilium/ebpf/ringbuf"
)

// Waker is the task that ended the wait of a thread that Check had marked.
type Waker struct {
	TID               uint32 // the thread that waited
	Started, Switches uint64 // identify the wait, as in Thread

	// PID and TID of the task that ran at that time, its name and the name of its process. It is the waker unless
	// Kernel shows that an interrupt came.
	ByPID, ByTID uint32
	ByComm       string
	ByProcess    string
	ByKernel     bool // it is a thread of the kernel, or an idle CPU

	Kernel []uint64 // addresses, leaf first; none if they could not be read
}

// wakers holds the BPF program that notes wakers, and the buffer that it writes to.
type wakers struct {
	objects wakersObjects
	hook    link.Link
	reader  *ringbuf.Reader
	record  ringbuf.Record
	waker   wakersWaker
}

// WatchWakers starts noting the tasks that end the waits of marked threads. It slightly slows down each wakeup on this
// host.
func (t *Threads) WatchWakers() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.wakers != nil {
		return nil
	}
	w := &wakers{}
	if err := w.openProgram(t.objects.Marks); err != nil {
		return errors.Join(fmt.Errorf("record wakers: %w", err), w.close())
	}
	t.wakers = w
	return nil
}

// IgnoreWakers undoes WatchWakers.
func (t *Threads) IgnoreWakers() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.wakers == nil {
		return nil
	}
	w := t.wakers
	t.wakers = nil
	return w.close()
}

func (w *wakers) openProgram(marks *ebpf.Map) (err error) {
	shared := &ebpf.CollectionOptions{MapReplacements: map[string]*ebpf.Map{wakersMapMarks: marks}}
	if err := loadWakersObjects(&w.objects, shared); err != nil {
		return fmt.Errorf("load the BPF program: %w", err)
	}
	if w.reader, err = ringbuf.NewReader(w.objects.Wakers); err != nil {
		return err
	}
	w.hook, err = link.AttachRawTracepoint(link.RawTracepointOptions{
		Name: "sched_waking", Program: w.objects.NoteWaker,
	})
	if err != nil {
		return fmt.Errorf("attach to the raw tracepoint sched_waking: %w", err)
	}
	return nil
}

func (w *wakers) close() error {
	var errs []error
	if w.hook != nil {
		errs = append(errs, w.hook.Close())
	}
	if w.reader != nil {
		errs = append(errs, w.reader.Close())
	}
	return errors.Join(append(errs, w.objects.Close())...)
}

// ReadWakers hands the wakers since the last call to use, and returns how many were lost since WatchWakers because the
// buffer was full. Each wait of a mark has one waker at most. Without WatchWakers there are none. use must not call t,
// and its argument is valid until it returns.
func (t *Threads) ReadWakers(use func(*Waker)) (lost uint64, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	w := t.wakers
	if w == nil {
		return 0, nil
	}
	w.reader.SetDeadline(time.Now()) // do not wait for more
	for {
		err := w.reader.ReadInto(&w.record)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			break
		}
		if err != nil {
			return 0, fmt.Errorf("record wakers: %w", err)
		}
		waker, err := w.decode(w.record.RawSample)
		if err != nil {
			return 0, err
		}
		use(&waker)
	}
	if err := w.objects.WakersLost.Get(&lost); err != nil {
		return 0, fmt.Errorf("record wakers: %w", err)
	}
	return lost, nil
}

// decode returns the Waker of a record. The kernel pads records to 8 bytes.
func (w *wakers) decode(b []byte) (Waker, error) {
	const head = int(unsafe.Offsetof(w.waker.Kernel))
	r := &w.waker
	copy(unsafe.Slice((*byte)(unsafe.Pointer(r)), unsafe.Sizeof(*r)), b)
	frames := int(r.KernelFrames)
	if len(b) < head || frames > len(r.Kernel) || len(b) < head+8*frames {
		return Waker{}, fmt.Errorf("record wakers: a record of %d bytes has %d kernel frames", len(b), frames)
	}
	return Waker{
		TID: r.Tid, Started: r.Started, Switches: r.Switches,
		ByPID: r.ByPid, ByTID: r.ByTid, ByKernel: r.ByKernel != 0,
		ByComm:    cString(unsafe.Slice((*byte)(unsafe.Pointer(&r.ByComm)), len(r.ByComm))),
		ByProcess: cString(unsafe.Slice((*byte)(unsafe.Pointer(&r.ByProcess)), len(r.ByProcess))),
		Kernel:    r.Kernel[:frames],
	}, nil
}
