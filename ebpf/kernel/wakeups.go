package kernel

import (
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// wakeups is the ring buffer by which BPF wakes user space to read the rings of samples. Its content does not matter.
// Its first two pages are the positions up to which it was read and written, see bpf_ringbuf_area_alloc in the kernel's
// kernel/bpf/ringbuf.c.
type wakeups struct {
	*waiter
	consumer, producer []byte
}

func openWakeups(m *ebpf.Map) (_ *wakeups, err error) {
	page := os.Getpagesize()
	w := &wakeups{}
	if w.consumer, err = unix.Mmap(m.FD(), 0, page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err != nil {
		return nil, fmt.Errorf("map the buffer of wakeups: %w", err)
	}
	if w.producer, err = unix.Mmap(m.FD(), int64(page), page, unix.PROT_READ, unix.MAP_SHARED); err != nil {
		return nil, errors.Join(fmt.Errorf("map the buffer of wakeups: %w", err), unix.Munmap(w.consumer))
	}
	fd, err := unix.FcntlInt(uintptr(m.FD()), unix.F_DUPFD_CLOEXEC, 0)
	if err == nil {
		w.waiter, err = newWaiter(fd, "wakeups")
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("wait for wakeups: %w", err), w.unmap())
	}
	return w, nil
}

// waitUntil returns when BPF wakes user space, else as waiter.waitUntil. It consumes the wakeup: the next write by BPF
// wakes user space again.
func (w *wakeups) waitUntil(deadline time.Time) (flushed bool, err error) {
	return w.waiter.waitUntil(deadline, func() bool {
		read, written := position(w.consumer), position(w.producer)
		woken := atomic.LoadUint64(read) != atomic.LoadUint64(written)
		atomic.StoreUint64(read, atomic.LoadUint64(written))
		return woken
	})
}

func position(page []byte) *uint64 { return (*uint64)(unsafe.Pointer(&page[0])) }

func (w *wakeups) unmap() error { return errors.Join(unix.Munmap(w.consumer), unix.Munmap(w.producer)) }

// close releases everything. No goroutine may be waiting.
func (w *wakeups) close() error { return errors.Join(w.waiter.close(), w.unmap()) }
