package kernel

import (
	"encoding/binary"
	"fmt"
	"os"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// perfRing is the memory-mapped buffer of one perf event, see
// perf_event_open(2), "MMAP layout".
type perfRing struct {
	event *perfEvent
	mem   []byte // metadata page and data
	data  []byte
	meta  *unix.PerfEventMmapPage
	buf   []byte // of a record that wraps around
	last  uint64 // time of the last record that was parsed, 0 if none was
}

func newPerfRing(event *perfEvent, pages int) (*perfRing, error) {
	page := os.Getpagesize()
	mem, err := unix.Mmap(event.fd, 0, (1+pages)*page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("map %d pages of perf buffer: %w", pages, err)
	}
	return &perfRing{event: event, mem: mem, data: mem[page:],
		meta: (*unix.PerfEventMmapPage)(unsafe.Pointer(&mem[0]))}, nil
}

// filled returns the number of bytes that can be read.
func (r *perfRing) filled() uint64 {
	tail := atomic.LoadUint64(&r.meta.Data_tail) // loaded before the head, which it never passes
	return atomic.LoadUint64(&r.meta.Data_head) - tail
}

// recordHeader is struct perf_event_header.
const recordHeader = 8

// readRecords calls f for every available record, with its type, its misc flags and the bytes after the header, which
// are valid during the call.
func (r *perfRing) readRecords(f func(kind uint32, misc uint16, body []byte)) error {
	head := atomic.LoadUint64(&r.meta.Data_head)
	tail := r.meta.Data_tail
	for tail < head {
		header := r.bytesAt(tail, recordHeader)
		kind, misc := binary.NativeEndian.Uint32(header), binary.NativeEndian.Uint16(header[4:])
		size := uint64(binary.NativeEndian.Uint16(header[6:]))
		if size < recordHeader || size > head-tail {
			atomic.StoreUint64(&r.meta.Data_tail, head)
			return fmt.Errorf("perf record of %d bytes, %d are there", size, head-tail)
		}
		f(kind, misc, r.bytesAt(tail, size)[recordHeader:])
		tail += size
	}
	atomic.StoreUint64(&r.meta.Data_tail, tail)
	return nil
}

// bytesAt returns n bytes from position pos, joined when they wrap around.
func (r *perfRing) bytesAt(pos, n uint64) []byte {
	i := pos % uint64(len(r.data))
	if i+n <= uint64(len(r.data)) {
		return r.data[i : i+n]
	}
	r.buf = append(append(r.buf[:0], r.data[i:]...), r.data[:n-(uint64(len(r.data))-i)]...)
	return r.buf
}

func (r *perfRing) close() {
	unix.Munmap(r.mem)
	r.event.close()
}
