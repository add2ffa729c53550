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

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/features"
	"golang.org/x/sys/unix"
)

// ProbeEvent is a place where Probes takes samples.
type ProbeEvent struct {
	Type   string // uprobe, kprobe, tracepoint or software
	Return bool   // for uprobe and kprobe: when the function returns
	Path   string // for uprobe: the file
	Offset uint64 // for uprobe in the file, for kprobe in the function
	Entry  bool   // for uprobe: a function starts there
	// Leaves says that the instruction at a uprobe ends its function, with the return address on top of the stack.
	Leaves bool
	// Semaphore is the place in the file of the counter by which a USDT probe is enabled; 0 if it has none.
	Semaphore uint64
	Group     string // for tracepoint
	Name      string // for tracepoint and kprobe: the function
	Config    uint64 // for software: PERF_COUNT_SW_
	Period    uint64 // sample every Period-th hit of a CPU; 0 means 1
}

// ProbeHit is a sample of a probe: the user registers and the user stack of the task at that instant, and the kernel
// stack. It is valid until the next hit.
type ProbeHit struct {
	PerfSnapshot
	Probe  int    // as Add returned it
	Hits   uint64 // number of hits that it stands for
	Return bool   // PC is the address to which a function has returned, or is about to return
	Leaves bool   // Walk starts with the frame of the function that is about to return, which the registers do not have
	Kernel []uint64
	// Walk is the user stack as BPF walked it, with the frames of the process's language runtime. It is nil if BPF did
	// not walk: it knows no runtime of the process, the probe has a Period, or the probe is a software event.
	Walk *Sample
	// Counted says that Counts has the hit.
	Counted bool
}

const (
	// probeStack is the number of bytes of user stack in a hit.
	probeStack = 16 << 10
	// probePages is the size of a CPU's buffer of hits, in pages of memory.
	probePages = 1024
)

// Probes takes samples where programs or the kernel hit a probe: the kernel writes the registers and a part of the
// stack to a buffer. In processes with a language runtime a BPF program walks the stack. All methods except Close may
// be called concurrently.
type Probes struct {
	epoll   int
	ready   *waiter
	objects hitsObjects

	mu     sync.Mutex
	rings  map[int]*perfRing // by CPU
	events map[int][]*perfEvent
	byID   map[uint64]hitOf // by the kernel's IDs of events
	// uncounted are the probes whose hits Counts does not have.
	uncounted map[int]bool
	last      int
	lost      uint64 // by the records of the rings
	gone      uint64 // lost hits of events that are closed
	hit       ProbeHit
	walks     *walks
}

// hitOf describes the hits of an event.
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
		byID: map[uint64]hitOf{}, uncounted: map[int]bool{}}
	if err := out.openObjects(p); err != nil {
		return nil, errors.Join(fmt.Errorf("probes: %w", err), out.Close())
	}
	return out, nil
}

func (p *Probes) openObjects(of *Profiler) error {
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

// addRing opens an event of a CPU that never occurs. All other events of the CPU write to its buffer.
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

// probeAttr describes the record of a hit. It lacks PERF_SAMPLE_PERIOD, with which the kernel would sample every hit.
func probeAttr() unix.PerfEventAttr {
	return unix.PerfEventAttr{
		Sample_type: unix.PERF_SAMPLE_IDENTIFIER | unix.PERF_SAMPLE_TID | unix.PERF_SAMPLE_TIME |
			unix.PERF_SAMPLE_CPU | unix.PERF_SAMPLE_CALLCHAIN | unix.PERF_SAMPLE_REGS_USER | unix.PERF_SAMPLE_STACK_USER,
		Sample_regs_user:  userRegsMask,
		Sample_stack_user: probeStack,
		Clockid:           unix.CLOCK_MONOTONIC,
		Read_format:       lostFormat(),
		Bits:              unix.PerfBitUseClockID | unix.PerfBitExcludeCallchainUser | unix.PerfBitDisabled,
	}
}

// lostFormat returns the format in which events are read: with the number of records that were lost, or 0 before Linux
// 6.0, which does not count them by event.
func lostFormat() uint64 {
	const sinceVersion = 6 << 16
	if version, err := features.LinuxVersionCode(); err != nil || version < sinceVersion {
		return 0
	}
	return unix.PERF_FORMAT_LOST
}

// lostRecords returns how many records of the event were lost, or 0 if the kernel does not count them.
func (e *perfEvent) lostRecords() (uint64, error) {
	if lostFormat() == 0 {
		return 0, nil
	}
	var b [16]byte // value, lost
	if n, err := unix.Read(e.fd, b[:]); err != nil || n != len(b) {
		return 0, fmt.Errorf("read the lost hits of CPU %d: %d bytes, %w", e.cpu, n, err)
	}
	return binary.NativeEndian.Uint64(b[8:]), nil
}

// Lost returns how many hits were lost since OpenProbes because a buffer was full. Read returns only the losses before
// the last hit of each buffer, and so does Lost before Linux 6.0.
func (p *Probes) Lost() (uint64, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	sum := p.gone
	for _, events := range p.events {
		for _, event := range events {
			lost, err := event.lostRecords()
			if err != nil {
				return p.lost, err
			}
			sum += lost
		}
	}
	return max(sum, p.lost), nil
}

// Counts hands the number of hits of each process since OpenProbes to use, of the hits that have Counted set and are
// not of ignored processes. Only the last few thousand processes have one.
func (p *Probes) Counts(use func(pid uint32, hits uint64)) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	var pid uint32
	var byCPU []uint64
	all := p.objects.HitCounts.Iterate()
	for all.Next(&pid, &byCPU) {
		sum := uint64(0)
		for _, n := range byCPU {
			sum += n
		}
		use(pid, sum)
	}
	if err := all.Err(); err != nil && !errors.Is(err, ebpf.ErrIterationAborted) { // aborted where entries come and go
		return fmt.Errorf("read the numbers of hits: %w", err)
	}
	return nil
}

// Disable ends sampling. Read still has the hits until then.
func (p *Probes) Disable() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	var errs []error
	for _, events := range p.events {
		for _, event := range events {
			errs = append(errs, event.disable())
		}
	}
	return errors.Join(errs...)
}

// Add starts sampling a probe at all its places, and returns its number. If it fails, it leaves no events.
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
		id, err := event.kernelID()
		if err != nil {
			return err
		}
		p.byID[id] = hitOf{
			probe: probe, returned: place.Return && place.Type == "uprobe", leaves: place.Leaves,
			period: attr.Sample,
		}
		if err := unix.IoctlSetInt(event.fd, unix.PERF_EVENT_IOC_SET_OUTPUT, ring.event.fd); err != nil {
			return fmt.Errorf("write hits to the buffer of CPU %d: %w", cpu, err)
		}
	}
	counts, err := p.setPrograms(place, opened)
	if err != nil {
		return err
	}
	if !counts {
		p.uncounted[probe] = true
	}
	for _, event := range opened {
		if err := event.enable(); err != nil {
			return err
		}
	}
	return nil
}

// isWalked reports whether BPF walks and counts all hits of the place. With a period most walks would be of hits that
// are not sampled. For software events, it depends on the kernel version whether the kernel takes the time before or
// after it runs programs.
func (e *ProbeEvent) isWalked() bool { return cmp.Or(e.Period, 1) == 1 && e.Type != "software" }

// setPrograms has BPF walk stacks at a place, and leave out the hits of ignored processes before the kernel records
// them. At a tracepoint it leaves out none, because the kernel would record the hit for no other tool either. It
// reports whether BPF counts each hit of the place.
func (p *Probes) setPrograms(place *ProbeEvent, events []*perfEvent) (counts bool, err error) {
	walk := place.isWalked()
	last := events[len(events)-1]
	if place.Type == "tracepoint" {
		if !walk {
			return false, nil
		}
		err := last.setProgram(p.objects.HitTracepoint.FD())
		if errors.Is(err, unix.EEXIST) { // another probe has the program: one walk serves both, but counts one hit
			return false, nil
		}
		return err == nil, err
	}
	for _, event := range events {
		program := p.objects.PassProbe
		switch {
		case place.Type == "software":
			program = p.objects.PassEvent
		case walk && event == last: // it runs for the hits of all CPUs, before the other events record theirs
			program = p.objects.HitProbe
		}
		if err := event.setProgram(program.FD()); err != nil {
			return false, err
		}
	}
	return walk, nil
}

// IsCounted reports whether Counts has the hits of a probe.
func (p *Probes) IsCounted(probe int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.uncounted[probe]
}

// kernelID returns the kernel's ID of an event.
func (e *perfEvent) kernelID() (id uint64, err error) {
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(e.fd), unix.PERF_EVENT_IOC_ID,
		uintptr(unsafe.Pointer(&id))); errno != 0 {
		return 0, fmt.Errorf("number of the perf event of CPU %d: %w", e.cpu, errno)
	}
	return id, nil
}

// Remove ends a probe. Read drops hits of the probe that were not read before.
func (p *Probes) Remove(probe int) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.remove(probe)
}

func (p *Probes) remove(probe int) error {
	var errs []error
	for _, event := range p.events[probe] {
		lost, err := event.lostRecords()
		p.gone += lost
		errs = append(errs, err, event.close())
	}
	delete(p.events, probe)
	delete(p.uncounted, probe)
	for id, of := range p.byID {
		if of.probe == probe {
			delete(p.byID, id)
		}
	}
	return errors.Join(errs...)
}

// Wait returns when a quarter of a buffer is full or the deadline has passed, or with ErrClosed after Stop.
func (p *Probes) Wait(deadline time.Time) error {
	_, err := p.ready.waitUntil(deadline, func() bool {
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

// Stop ends the present and every later Wait.
func (p *Probes) Stop() error { return p.ready.stopWaits() }

// Read hands every available hit to use, CPU by CPU, and returns how many were lost since OpenProbes because a buffer
// was full. use must not call p.
func (p *Probes) Read(use func(*ProbeHit)) (lost uint64, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	err = p.walks.reading(func() error { return p.readRings(use) })
	return p.lost, err
}

func (p *Probes) readRings(use func(*ProbeHit)) error {
	for cpu, ring := range p.rings {
		var failed error
		err := ring.readRecords(func(kind uint32, _ uint16, body []byte) {
			if kind == unix.PERF_RECORD_LOST && len(body) >= 16 {
				p.lost += binary.NativeEndian.Uint64(body[8:])
			}
			if kind == unix.PERF_RECORD_SAMPLE && p.parse(body) {
				walk, err := p.walks.walkOf(&p.hit)
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
// whether the record is a hit of a probe that still exists.
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
	h.Counted = !p.uncounted[of.probe]
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

// contextMarks is the lowest value that is a mark and not an address: PERF_CONTEXT_MAX.
const contextMarks = 1<<64 - 4095

// Close ends all probes. No goroutine may be in Wait.
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

// Argument returns the n-th argument at the entry of a function, n from 1 to 6, by the C calling convention.
func (s *PerfSnapshot) Argument(n int) uint64 { return s.Regs[argumentRegisters[n-1]] }

// Returned returns the result of a function that has just returned.
func (s *PerfSnapshot) Returned() uint64 { return s.Regs[0] }

// describe sets the attributes of the event. They point to the text that it returns.
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

// explain adds to an error of the kernel its meaning for the author of the probe.
func (e *ProbeEvent) explain(err error) error {
	switch {
	case e.Type == "uprobe" && errors.Is(err, unix.EINVAL):
		return fmt.Errorf("the kernel refuses the probe: %w; either no instruction starts at %#x of the file, or its file "+
			"system does not support probes", err, e.Offset)
	case e.Type == "kprobe":
		return fmt.Errorf("the kernel refuses a probe at %s, which /proc/kallsyms must list: %w", e.Name, err)
	}
	return err
}
