package kernel

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"sync"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// ProbeEvent is a place where Probes takes samples.
type ProbeEvent struct {
	Type   string // uprobe, kprobe, tracepoint or software
	Return bool   // of uprobe and kprobe: when the function returns
	Path   string // of uprobe: the file
	Offset uint64 // of uprobe in the file, of kprobe in the function
	Entry  bool   // of uprobe: a function begins there
	// Leaves says, of uprobe, that the instruction there ends the function, with the return address on top of the stack.
	Leaves bool
	// Semaphore is, of a USDT probe, where in the file the number is that says whether somebody looks; 0: nowhere.
	Semaphore uint64
	Group     string // of tracepoint
	Name      string // of tracepoint and kprobe: the function
	Config    uint64 // of software: PERF_COUNT_SW_
	Period    uint64 // after how many hits of a CPU one is sampled; 0: 1
}

// ProbeHit is what a probe has seen: the user part of the task's registers and stack at that instant, and the kernel's
// part of the stack. It is valid until the next one.
type ProbeHit struct {
	PerfSnapshot
	Probe  int    // as Add returned it
	Hits   uint64 // that it stands for
	Return bool   // PC is where a function has returned to, or is about to
	Leaves bool   // Walk begins with the frame of the function that is about to return, which the registers do not have
	Kernel []uint64
	// Walk is the user stack as BPF has walked it, with the frames of the process's language runtime; nil if it has not,
	// because there is no such runtime that it knows, the probe has a Period, or is a software event.
	Walk *Sample
}

const (
	// probeStack is how much of a user stack comes with a hit.
	probeStack = 16 << 10
	// probePages is the size of a CPU's buffer of hits, in pages of memory.
	probePages = 1024
)

// Probes take samples where code of programs or of the kernel comes by: the kernel writes the registers and a part of
// the stack to a buffer. In processes with a language runtime a BPF program walks the stack. Its methods may be called
// concurrently, but for Close.
type Probes struct {
	epoll   int
	ready   *waiter
	objects hitsObjects

	mu     sync.Mutex
	rings  map[int]*perfRing // by CPU
	events map[int][]*perfEvent
	byID   map[uint64]hitOf // by the kernel's numbers of events
	last   int
	lost   uint64
	hit    ProbeHit
	walks  *walks
}

// hitOf is what an event is of.
type hitOf struct {
	probe    int
	returned bool
	leaves   bool
	period   uint64
}

// OpenProbes prepares the buffers. Close the Probes after use.
func (p *Profiler) OpenProbes() (*Probes, error) {
	epoll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("probes: epoll: %w", err)
	}
	ready, err := newWaiter(epoll, "probes")
	if err != nil {
		return nil, err
	}
	out := &Probes{epoll: epoll, ready: ready, rings: map[int]*perfRing{}, events: map[int][]*perfEvent{},
		byID: map[uint64]hitOf{}}
	if err := out.open(p); err != nil {
		return nil, errors.Join(fmt.Errorf("probes: %w", err), out.Close())
	}
	return out, nil
}

func (p *Probes) open(of *Profiler) error {
	spec, err := loadHits()
	if err != nil {
		return err
	}
	if err := of.loadWalking(spec, &p.objects); err != nil {
		return err
	}
	if p.walks, err = openWalks(p.objects.SampleRings); err != nil {
		return err
	}
	cpus, err := onlineCPUs()
	if err != nil {
		return fmt.Errorf("find online CPUs: %w", err)
	}
	for _, cpu := range cpus {
		if err := p.addRing(cpu); err != nil {
			return err
		}
	}
	return nil
}

// addRing opens an event of a CPU that never happens, whose buffer is that of all others.
func (p *Probes) addRing(cpu int) error {
	attr := probeAttr()
	attr.Type, attr.Config, attr.Sample = unix.PERF_TYPE_SOFTWARE, unix.PERF_COUNT_SW_DUMMY, 0
	attr.Bits |= unix.PerfBitWatermark
	attr.Wakeup = uint32(probePages * os.Getpagesize() / 4)
	event, err := openPerfEvent(&attr, cpu)
	if err != nil {
		return err
	}
	ring, err := newPerfRing(event, probePages)
	if err != nil {
		return errors.Join(err, event.close())
	}
	p.rings[cpu] = ring
	ready := unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(event.fd)}
	return unix.EpollCtl(p.epoll, unix.EPOLL_CTL_ADD, event.fd, &ready)
}

// probeAttr describes what is written of each hit: without PERF_SAMPLE_PERIOD, with which the kernel samples every one.
func probeAttr() unix.PerfEventAttr {
	return unix.PerfEventAttr{
		Sample_type: unix.PERF_SAMPLE_IDENTIFIER | unix.PERF_SAMPLE_TID | unix.PERF_SAMPLE_TIME |
			unix.PERF_SAMPLE_CPU | unix.PERF_SAMPLE_CALLCHAIN | unix.PERF_SAMPLE_REGS_USER | unix.PERF_SAMPLE_STACK_USER,
		Sample_regs_user:  userRegsMask,
		Sample_stack_user: probeStack,
		Clockid:           unix.CLOCK_MONOTONIC,
		Bits:              unix.PerfBitUseClockID | unix.PerfBitExcludeCallchainUser | unix.PerfBitDisabled,
	}
}

// Add begins to sample a probe at all its places, and returns its number. Nothing is left of one that fails.
func (p *Probes) Add(places []ProbeEvent) (probe int, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last++
	for _, place := range places {
		if err := p.addPlace(p.last, &place); err != nil {
			return 0, errors.Join(err, p.remove(p.last))
		}
	}
	return p.last, nil
}

func (p *Probes) addPlace(probe int, place *ProbeEvent) error {
	attr := probeAttr()
	attr.Sample = cmp.Or(place.Period, 1)
	name, err := place.describe(&attr)
	if err != nil {
		return err
	}
	defer runtime.KeepAlive(name) // the kernel reads it when an event is opened
	var opened []*perfEvent
	for cpu, ring := range p.rings {
		event, err := openPerfEvent(&attr, cpu)
		if err != nil {
			return place.explain(err)
		}
		p.events[probe], opened = append(p.events[probe], event), append(opened, event)
		id, err := event.id()
		if err != nil {
			return err
		}
		p.byID[id] = hitOf{probe, place.Return && place.Type == "uprobe", place.Leaves, attr.Sample}
		if err := unix.IoctlSetInt(event.fd, unix.PERF_EVENT_IOC_SET_OUTPUT, ring.event.fd); err != nil {
			return fmt.Errorf("write hits to the buffer of CPU %d: %w", cpu, err)
		}
	}
	// With a period most walks would be of hits that are not sampled. Of software events the kernel notes the time before
	// programs run, or after, as its version has it.
	if attr.Sample == 1 && place.Type != "software" {
		if err := p.walkAt(place, opened[len(opened)-1]); err != nil {
			return err
		}
	}
	for _, event := range opened {
		if err := event.enable(); err != nil {
			return err
		}
	}
	return nil
}

// walkAt has BPF walk stacks at a place. The program of one event runs for the hits of all CPUs, that of the last event
// at a function before the others note them.
func (p *Probes) walkAt(place *ProbeEvent, last *perfEvent) error {
	if place.Type != "tracepoint" {
		return last.setProgram(p.objects.HitProbe.FD())
	}
	err := last.setProgram(p.objects.HitTracepoint.FD())
	if errors.Is(err, unix.EEXIST) { // another probe is there, and one walk is for both
		return nil
	}
	return err
}

// id returns the kernel's number of an event.
func (e *perfEvent) id() (id uint64, err error) {
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(e.fd), unix.PERF_EVENT_IOC_ID,
		uintptr(unsafe.Pointer(&id))); errno != 0 {
		return 0, fmt.Errorf("number of the perf event of CPU %d: %w", e.cpu, errno)
	}
	return id, nil
}

// Remove ends a probe. What it has seen until now can still be read, but not whose it is: read before.
func (p *Probes) Remove(probe int) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.remove(probe)
}

func (p *Probes) remove(probe int) error {
	var errs []error
	for _, event := range p.events[probe] {
		errs = append(errs, event.close())
	}
	delete(p.events, probe)
	for id, of := range p.byID {
		if of.probe == probe {
			delete(p.byID, id)
		}
	}
	return errors.Join(errs...)
}

// Wait returns when a quarter of a buffer is full or the deadline has passed, or with ErrClosed after Stop.
func (p *Probes) Wait(deadline time.Time) error {
	_, err := p.ready.wait(deadline, func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		for _, ring := range p.rings {
			if ring.filled() >= uint64(len(ring.data)/4) {
				return true
			}
		}
		return false
	})
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return nil
	}
	return err
}

// Stop has Wait return for good.
func (p *Probes) Stop() error { return p.ready.stop() }

// Read hands every hit that is there to use, CPU by CPU, and returns how many were lost since OpenProbes because a
// buffer was full. use may not call p.
func (p *Probes) Read(use func(*ProbeHit)) (lost uint64, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	err = p.walks.reading(func() error { return p.readRings(use) })
	return p.lost, err
}

func (p *Probes) readRings(use func(*ProbeHit)) error {
	for cpu, ring := range p.rings {
		var failed error
		err := ring.read(func(kind uint32, _ uint16, body []byte) {
			if kind == unix.PERF_RECORD_LOST && len(body) >= 16 {
				p.lost += binary.NativeEndian.Uint64(body[8:])
			}
			if kind == unix.PERF_RECORD_SAMPLE && p.parse(body) {
				walk, err := p.walks.of(&p.hit)
				p.hit.Walk, failed = walk, cmp.Or(failed, err)
				use(&p.hit)
			}
		})
		if err := errors.Join(err, failed); err != nil {
			return fmt.Errorf("read hits of probes: CPU %d: %w", cpu, err)
		}
	}
	return nil
}

// parse reads: u64 id; u32 pid, tid; u64 time; u32 cpu, 0; u64 frames, and as many words; the user part. It reports
// whether it is of a probe that is still there.
func (p *Probes) parse(b []byte) bool {
	const fixed = 40
	if len(b) < fixed {
		return false
	}
	u64, u32 := binary.NativeEndian.Uint64, binary.NativeEndian.Uint32
	of, ok := p.byID[u64(b)]
	frames := u64(b[32:])
	if !ok || frames > uint64(len(b)-fixed)/8 {
		return false
	}
	h := &p.hit
	h.PerfSnapshot = PerfSnapshot{PID: u32(b[8:]), TID: u32(b[12:]), Time: u64(b[16:]), CPU: u32(b[24:])}
	h.Probe, h.Return, h.Leaves, h.Hits, h.Kernel = of.probe, of.returned, of.leaves, of.period, h.Kernel[:0]
	for i := range frames {
		if addr := u64(b[fixed+8*i:]); addr < contextMarks {
			h.Kernel = append(h.Kernel, addr)
		}
	}
	if !h.parseUser(b[fixed+8*frames:]) {
		return false
	}
	if h.Leaves && h.InUser {
		h.Return = h.leaveFunction()
		h.Leaves = h.Return
	}
	return true
}

// contextMarks and above are no addresses: PERF_CONTEXT_MAX.
const contextMarks = 1<<64 - 4095

// Close ends all probes. Nobody may be in Wait.
func (p *Probes) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	var errs []error
	for probe := range p.events {
		errs = append(errs, p.remove(probe))
	}
	for _, ring := range p.rings {
		ring.close()
	}
	if p.walks != nil {
		errs = append(errs, p.walks.close())
	}
	return errors.Join(append(errs, p.objects.Close(), p.ready.close())...)
}

// Argument returns the n-th argument of a function where it begins, n from 1 to 6, by the C calling convention.
func (s *PerfSnapshot) Argument(n int) uint64 { return s.Regs[argumentRegisters[n-1]] }

// Returned returns what a function that has just returned gives back.
func (s *PerfSnapshot) Returned() uint64 { return s.Regs[0] }

// describe sets what the event is. The attributes point to the text that it returns.
func (e *ProbeEvent) describe(attr *unix.PerfEventAttr) (name []byte, err error) {
	switch e.Type {
	case "software":
		attr.Type, attr.Config = unix.PERF_TYPE_SOFTWARE, e.Config
		return nil, nil
	case "tracepoint":
		attr.Type = unix.PERF_TYPE_TRACEPOINT
		attr.Config, err = tracepointID(e.Group, e.Name)
		return nil, err
	}
	if attr.Type, err = pmuType(e.Type); err != nil {
		return nil, err
	}
	if err := e.checkNop5(); err != nil {
		return nil, err
	}
	if e.Semaphore >= 1<<32 {
		return nil, errors.New("its semaphore is beyond 4 GiB in the file")
	}
	attr.Config |= e.Semaphore << 32 // format/ref_ctr_offset: config:32-63
	if e.Return {
		attr.Config |= 1 // format/retprobe: config:0
	}
	text := e.Path
	if e.Type == "kprobe" {
		text = e.Name
	}
	name = slices.Concat([]byte(text), []byte{0})
	attr.Ext1 = uint64(uintptr(unsafe.Pointer(&name[0]))) // uprobe_path, kprobe_func
	attr.Ext2 = e.Offset
	return name, nil
}

// explain says what an error of the kernel means for who wrote the link.
func (e *ProbeEvent) explain(err error) error {
	switch {
	case e.Type == "uprobe" && errors.Is(err, unix.EINVAL):
		return fmt.Errorf("the kernel puts no probe there: %w; no instruction may begin at %#x of the file, or its file "+
			"system has none", err, e.Offset)
	case e.Type == "kprobe":
		return fmt.Errorf("the kernel puts no probe at %s, which /proc/kallsyms must list: %w", e.Name, err)
	}
	return err
}
