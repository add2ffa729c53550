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

// calls is the ring buffer by which BPF calls user space to look into the logs.
// What is in it does not matter. Its first two pages are the positions up to which
// it was read and written, see bpf_ringbuf_area_alloc in the kernel's
// kernel/bpf/ringbuf.c.
type calls struct {
	*waiter
	consumer, producer []byte
}

func openCalls(m *ebpf.Map) (_ *calls, err error) {
	page := os.Getpagesize()
	c := &calls{}
	if c.consumer, err = unix.Mmap(m.FD(), 0, page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err != nil {
		return nil, fmt.Errorf("map the buffer of calls: %w", err)
	}
	if c.producer, err = unix.Mmap(m.FD(), int64(page), page, unix.PROT_READ, unix.MAP_SHARED); err != nil {
		return nil, errors.Join(fmt.Errorf("map the buffer of calls: %w", err), unix.Munmap(c.consumer))
	}
	fd, err := unix.FcntlInt(uintptr(m.FD()), unix.F_DUPFD_CLOEXEC, 0)
	if err == nil {
		c.waiter, err = newWaiter(fd, "calls")
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("wait for calls: %w", err), c.unmap())
	}
	return c, nil
}

// wait returns when BPF calls, else as waiter.wait. The call is answered then:
// what BPF writes from now on makes it call again.
func (c *calls) wait(deadline time.Time) (flushed bool, err error) {
	return c.waiter.wait(deadline, func() bool {
		read, written := position(c.consumer), position(c.producer)
		called := atomic.LoadUint64(read) != atomic.LoadUint64(written)
		atomic.StoreUint64(read, atomic.LoadUint64(written))
		return called
	})
}

func position(page []byte) *uint64 { return (*uint64)(unsafe.Pointer(&page[0])) }

func (c *calls) unmap() error { return errors.Join(unix.Munmap(c.consumer), unix.Munmap(c.producer)) }

// close releases everything. Nobody may be waiting.
func (c *calls) close() error { return errors.Join(c.waiter.close(), c.unmap()) }
