package reference

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// eventKind is the kind of an event.
type eventKind uint8

const (
	mapped eventKind = iota + 1 // a process has mapped code
	execed                      // it has executed another program
	forked                      // it was created
	exited                      // it has ended
	missed                      // events were lost
)

// event is a record about a process from one of this package's perf events (perf_event_open(2)).
type event struct {
	kind    eventKind
	time    uint64 // CLOCK_MONOTONIC, ns
	pid     uint32
	parent  uint32 // only for forked
	mapping mapping
}

// eventPages is the size of a CPU's buffer, in pages of memory.
const eventPages = 256

// events reads the events of all CPUs.
type events struct {
	rings []*ring
}

// ring is the buffer of one CPU's event (perf_event_open(2), "MMAP layout").
type ring struct {
	fd  int
	mem []byte
}

func openEvents() (*events, error) {
	text, err := os.ReadFile("/sys/devices/system/cpu/online")
	if err != nil {
		return nil, fmt.Errorf("find the online CPUs: %w", err)
	}
	out := &events{}
	for part := range strings.SplitSeq(strings.TrimSpace(string(text)), ",") {
		from, to, several := strings.Cut(part, "-")
		if !several {
			to = from
		}
		first, err1 := strconv.Atoi(from)
		last, err2 := strconv.Atoi(to)
		if err := errors.Join(err1, err2); err != nil {
			return nil, fmt.Errorf("online CPUs %q: %w", text, err)
		}
		for cpu := first; cpu <= last; cpu++ {
			r, err := openRing(cpu)
			if err != nil {
				out.close()
				return nil, fmt.Errorf("watch the processes of CPU %d: %w", cpu, err)
			}
			out.rings = append(out.rings, r)
		}
	}
	return out, nil
}

func openRing(cpu int) (*ring, error) {
	attr := unix.PerfEventAttr{
		Type: unix.PERF_TYPE_SOFTWARE, Config: unix.PERF_COUNT_SW_DUMMY, Size: uint32(unsafe.Sizeof(unix.PerfEventAttr{})),
		Sample_type: unix.PERF_SAMPLE_TIME,
		Bits: unix.PerfBitMmap | unix.PerfBitMmap2 | unix.PerfBitComm | unix.PerfBitCommExec | unix.PerfBitTask |
			unix.PerfBitSampleIDAll | unix.PerfBitUseClockID,
		Clockid: unix.CLOCK_MONOTONIC,
	}
	fd, err := unix.PerfEventOpen(&attr, -1, cpu, -1, unix.PERF_FLAG_FD_CLOEXEC)
	if err != nil {
		return nil, err
	}
	mem, err := unix.Mmap(fd, 0, (1+eventPages)*os.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		unix.Close(fd)
		return nil, err
	}
	return &ring{fd: fd, mem: mem}, nil
}

func (e *events) close() {
	for _, r := range e.rings {
		unix.Munmap(r.mem)
		unix.Close(r.fd)
	}
}

// readRings returns the available events, in order of time.
func (e *events) readRings() []event {
	var all []event
	for _, r := range e.rings {
		all = r.readEvents(all)
	}
	slices.SortStableFunc(all, func(a, b event) int { return cmp.Compare(a.time, b.time) })
	return all
}

func (r *ring) readEvents(all []event) []event {
	const header = 8 // u32 type; u16 misc, size
	meta := (*unix.PerfEventMmapPage)(unsafe.Pointer(&r.mem[0]))
	data := r.mem[os.Getpagesize():]
	head, tail := atomic.LoadUint64(&meta.Data_head), meta.Data_tail
	for tail < head {
		// A record may wrap around to the start of the buffer.
		at := int(tail % uint64(len(data)))
		record := append(slices.Clone(data[at:min(at+1<<12, len(data))]), data[:max(0, at+1<<12-len(data))]...)
		size := int(binary.NativeEndian.Uint16(record[6:]))
		if size < header || size > len(record) {
			all, tail = append(all, event{kind: missed}), head
			break
		}
		kind, misc := binary.NativeEndian.Uint32(record), binary.NativeEndian.Uint16(record[4:])
		if ev, ok := parseEvent(kind, misc, record[header:size]); ok {
			all = append(all, ev)
		}
		tail += uint64(size)
	}
	atomic.StoreUint64(&meta.Data_tail, tail)
	return all
}

// parseEvent parses a record after its header: its content, and at its end the time, which PERF_SAMPLE_TIME and
// sample_id_all add. It ignores events of single threads.
func parseEvent(kind uint32, misc uint16, b []byte) (event, bool) {
	u32, u64 := binary.NativeEndian.Uint32, binary.NativeEndian.Uint64
	if len(b) < 32 {
		return event{kind: missed}, kind == unix.PERF_RECORD_LOST
	}
	e := event{time: u64(b[len(b)-8:]), pid: u32(b)}
	switch kind {
	case unix.PERF_RECORD_LOST:
		e.kind = missed
	case unix.PERF_RECORD_COMM: // u32 pid, tid; char comm[]
		e.kind = execed
		return e, misc&unix.PERF_RECORD_MISC_COMM_EXEC != 0
	case unix.PERF_RECORD_FORK: // u32 pid, ppid, tid, ptid; u64 time
		e.kind, e.parent = forked, u32(b[4:])
		return e, e.pid != e.parent
	case unix.PERF_RECORD_EXIT:
		e.kind = exited
		return e, u32(b) == u32(b[8:])
	case unix.PERF_RECORD_MMAP2:
		// u32 pid, tid; u64 addr, len, pgoff; u32 maj, min; u64 ino, ino_generation; u32 prot, flags; char filename[]
		if len(b) < 72 || u32(b[56:])&unix.PROT_EXEC == 0 {
			return e, false
		}
		path, _, _ := bytes.Cut(b[64:len(b)-8], []byte{0})
		e.kind = mapped
		e.mapping = mapping{
			start: u64(b[8:]), end: u64(b[8:]) + u64(b[16:]), offset: u64(b[24:]),
			device: device{uint64(u32(b[32:])), uint64(u32(b[36:]))}, inode: u64(b[40:]), path: string(path),
		}
	default:
		return e, false
	}
	return e, true
}
