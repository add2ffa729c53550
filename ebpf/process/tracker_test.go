package process

import (
	"fmt"
	"maps"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/headwater/headwater/ebpf/host/filework"
	"github.com/headwater/headwater/ebpf/host/procfs"
	"github.com/headwater/headwater/ebpf/language"
	"github.com/headwater/headwater/ebpf/object/elffile"
	"github.com/headwater/headwater/ebpf/unwind"
	"github.com/headwater/headwater/integration/testkit"
	"github.com/headwater/headwater/integration/testkit/need"
)

// memoryStore is a Store in this process's memory.
type memoryStore struct {
	mu        sync.Mutex
	processes map[uint32]unwind.Process
	pages     map[unwind.Directory]map[uint64]*unwind.Page
	next      uint32
	full      bool // only pages that walks miss may be built
}

func newMemoryStore() *memoryStore {
	return &memoryStore{processes: map[uint32]unwind.Process{}, pages: map[unwind.Directory]map[uint64]*unwind.Page{}}
}

func (s *memoryStore) SetProcess(pid uint32, p unwind.Process) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	p.Mappings = slices.Clone(p.Mappings)
	s.processes[pid] = p
	return nil
}

func (s *memoryStore) DeleteProcess(pid uint32) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.processes, pid)
	return nil
}

func (s *memoryStore) AddDirectory(first, pages uint32, shift uint8) (unwind.Directory, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.next += 1000
	d := unwind.Directory{Word: s.next, First: first, Pages: pages, Shift: shift}
	s.pages[d] = map[uint64]*unwind.Page{}
	return d, nil
}

func (s *memoryStore) SetPage(d unwind.Directory, page uint64, p *unwind.Page) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pages[d] == nil {
		return fmt.Errorf("no directory %+v", d)
	}
	s.pages[d][page] = p
	return nil
}

func (s *memoryStore) Resident(d unwind.Directory, page uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pages[d][page] != nil
}

func (s *memoryStore) Rule(d unwind.Directory, vaddr uint64) (unwind.WideRule, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.pages[d][d.Page(vaddr)]; p != nil {
		return p.Rule(vaddr), true
	}
	return unwind.WideRule{}, false
}

func (s *memoryStore) DropPage(d unwind.Directory, page uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.pages[d], page)
}

func (s *memoryStore) AddInterpreter(*language.Spec) (number uint16, id uint32, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.next++
	return uint16(s.next), s.next, nil
}

func (s *memoryStore) RemoveInterpreter(uint16) {}

func (s *memoryStore) SetProgram(unwind.Program, uint16) error { return nil }

func (s *memoryStore) EvictUnused(time.Duration) {}

func (s *memoryStore) Unbuilt(d unwind.Directory, from, to uint64) (pages []uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for page := from; page < to && !s.full; page++ {
		if d.Holds(page) && s.pages[d][page] == nil {
			pages = append(pages, page)
		}
	}
	return pages
}

func (s *memoryStore) RemoveDirectory(d unwind.Directory) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.pages, d)
}

func (s *memoryStore) process(pid uint32) (unwind.Process, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p, ok := s.processes[pid]
	return p, ok
}

func newTracker(t *testing.T, fs procfs.FS) (*Tracker, *memoryStore) {
	t.Helper()
	store := newMemoryStore()
	tracker := NewTracker(store, fs, &filework.Pool{}, nil)
	tracker.SetOpenPatience(time.Minute) // other programs may have the CPUs
	tracker.SetReadPatience(time.Minute)
	t.Cleanup(tracker.Close)
	return tracker, store
}

// TestScan looks at a real process: this one.
func TestScan(t *testing.T) {
	need.Tools(t, "readelf")
	tracker, store := newTracker(t, procfs.Default)
	if err := tracker.Scan(); err != nil {
		t.Fatal(err)
	}
	pid := uint32(os.Getpid())
	p, ok := store.process(pid)
	if !ok || len(p.Mappings) == 0 {
		t.Fatalf("this process has mappings %+v", p.Mappings)
	}
	addr := uint64(reflect.ValueOf(TestScan).Pointer())
	view := tracker.At(pid, math.MaxUint64)
	exe, vaddr := view.Locate(addr)
	e := tracker.Executable(exe)
	if e == nil {
		t.Fatalf("address 0x%x lies in executable %d, which is not known", addr, exe)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if e.Path != self {
		t.Errorf("address 0x%x lies in %s, want %s", addr, e.Path, self)
	}
	out, err := exec.Command("readelf", "-h", self).Output()
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(out), "EXEC") && vaddr != addr {
		t.Errorf("address 0x%x of a program that is linked where it is mapped has ELF address 0x%x", addr, vaddr)
	}
	view = tracker.At(pid, 0)
	if comm := view.Comm(); comm == "" || !strings.HasPrefix(filepath.Base(self), comm) {
		t.Errorf("this process is called %q, its program is %s", comm, self)
	}
	if e, err := tracker.Executable(exe).Open(); err != nil {
		t.Error(err)
	} else {
		e.Close()
	}
}

// TestPagesAreBuiltWhenWalksWantThem asks for one rule of libc, and finds its page, and no other page, where walks in
// the kernel look it up.
func TestPagesAreBuiltWhenWalksWantThem(t *testing.T) {
	sleep := exec.Command("sleep", "60")
	if err := sleep.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { sleep.Process.Kill(); sleep.Wait() }()
	tracker, store := newTracker(t, procfs.Default)
	pid := uint32(sleep.Process.Pid)
	libc := func() (unwind.Mapping, bool) {
		tracker.Refresh(pid, 1)
		p, _ := store.process(pid)
		for _, m := range p.Mappings {
			if e := tracker.Executable(m.Exe); e != nil && strings.Contains(e.Path, "/libc.so") {
				return m, true
			}
		}
		return unwind.Mapping{}, false
	}
	var m unwind.Mapping
	testkit.Eventually(t, "sleep has mapped libc", func() (ok bool) {
		m, ok = libc()
		return ok
	})
	resident := func() (pages []uint64) {
		for n := uint64(m.Directory.First); m.Directory.Holds(n); n++ {
			if store.Resident(m.Directory, n) {
				pages = append(pages, n)
			}
		}
		return pages
	}
	if pages := resident(); len(pages) != 0 {
		t.Errorf("pages %v of libc are resident before any walk", pages)
	}
	addr := (m.Start + m.End) / 2
	view := tracker.At(pid, math.MaxUint64)
	if rule, outcome := view.Rule(addr); outcome != unwind.Unset || rule.CFA == unwind.CFANone {
		t.Errorf("the rule at 0x%x is %v, outcome %v", addr, rule, outcome)
	}
	if pages, want := resident(), m.Directory.Page(addr-m.Bias); !slices.Equal(pages, []uint64{want}) {
		t.Errorf("pages %v of libc are resident, want %d", pages, want)
	}
}

// fakeProc is a /proc with two processes and mappings of no files.
func fakeProc(t *testing.T) procfs.FS {
	t.Helper()
	dir := t.TempDir()
	for pid, maps := range map[string]string{
		"10": "1000-2000 r-xp 00000000 00:00 0 \n",
		"11": "1000-2000 r-xp 00000000 00:00 0 \n3000-4000 r-xp 00000000 00:00 0 \n",
	} {
		if err := os.MkdirAll(filepath.Join(dir, pid), 0o755); err != nil {
			t.Fatal(err)
		}
		for name, content := range map[string]string{"maps": maps, "comm": "init" + pid + "\n"} {
			if err := os.WriteFile(filepath.Join(dir, pid, name), []byte(content), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	return procfs.FS{Root: dir}
}

func ranges(p unwind.Process) []uint64 {
	var out []uint64
	for _, m := range p.Mappings {
		out = append(out, m.Start)
	}
	return out
}

func TestLifeOfAProcess(t *testing.T) {
	tracker, store := newTracker(t, fakeProc(t))
	if err := tracker.Scan(); err != nil {
		t.Fatal(err)
	}
	jit := func(start uint64) procfs.Mapping { return procfs.Mapping{Start: start, End: start + 0x1000} }

	tracker.Update(func(b *Batch) {
		b.Fork(100, 11, 20)
		b.Map(110, 20, jit(0x5000))
	})
	child, _ := store.process(20)
	if got, want := ranges(child), []uint64{0x1000, 0x3000, 0x5000}; !slices.Equal(got, want) {
		t.Errorf("child has mappings %x, want its parent's and its own %x", got, want)
	}

	tracker.Update(func(b *Batch) {
		b.Exec(200, 20, "prog")
		b.Map(150, 20, jit(0x7000)) // a late record from before
		b.Map(210, 20, jit(0x9000))
		b.Fork(100, 11, 20) // later still
	})
	program, _ := store.process(20)
	if got, want := ranges(program), []uint64{0x9000}; !slices.Equal(got, want) {
		t.Errorf("program has mappings %x, want %x", got, want)
	}
	at := func(time uint64) *View { v := tracker.At(20, time); return &v }
	if before := at(199).Comm(); before != "init11" {
		t.Errorf("before it started prog, the child was called %q, want init11", before)
	}
	if after := at(201).Comm(); after != "prog" {
		t.Errorf("the child is called %q, want prog", after)
	}
	for time, want := range map[uint64]bool{199: true, 201: false} {
		if rule, outcome := at(time).Rule(0x3500); (outcome == unwind.Unset) != want {
			t.Errorf("at %d, 0x3500 has rule %v, %v; it was mapped in the first program", time, rule, outcome)
		}
	}
	if !at(205).Stale(child.Generation) || at(205).Stale(program.Generation) || at(150).Stale(child.Generation) {
		t.Error("only a sample of the new program unwound by the old one's mappings is stale")
	}

	tracker.Update(func(b *Batch) { b.Exit(300, 20) })
	if gone := tracker.Reap(300); len(gone) != 0 {
		t.Errorf("reaped %v, but samples of that time may come", gone)
	}
	if gone := tracker.Reap(301); !slices.Equal(gone, []uint32{20}) {
		t.Errorf("reaped %v, want 20", gone)
	}
	if _, ok := store.process(20); ok {
		t.Error("the store knows a process that is gone")
	}
}

// TestPrograms has a process that executes one program after another before any sample of it is read.
func TestPrograms(t *testing.T) {
	tracker, _ := newTracker(t, fakeProc(t))
	jit := func(start uint64) procfs.Mapping { return procfs.Mapping{Start: start, End: start + 0x1000} }
	tracker.Update(func(b *Batch) {
		for i := range uint64(3) {
			b.Exec(100*(i+1), 20, "prog")
			b.Map(100*(i+1)+1, 20, jit(0x1000*(i+1)))
		}
	})
	mappedAt := func(addr uint64) (times []uint64) {
		for _, time := range []uint64{150, 250, 350} {
			view := tracker.At(20, time)
			if _, outcome := view.Rule(addr); outcome == unwind.Unset {
				times = append(times, time)
			}
		}
		return times
	}
	for i, time := range []uint64{150, 250, 350} {
		if got := mappedAt(0x1500 + 0x1000*uint64(i)); !slices.Equal(got, []uint64{time}) {
			t.Errorf("the mapping of program %d is there at %d, want %d", i+1, got, time)
		}
	}
	tracker.Reap(250)
	if got := mappedAt(0x1500); len(got) != 0 {
		t.Errorf("the first program is remembered after Reap")
	}
	if got := mappedAt(0x2500); !slices.Equal(got, []uint64{150, 250}) && !slices.Equal(got, []uint64{250}) {
		t.Errorf("the second program is there at %d after Reap, want 250", got)
	}
}

func TestPIDReuse(t *testing.T) {
	tracker, store := newTracker(t, fakeProc(t))
	if err := tracker.Scan(); err != nil {
		t.Fatal(err)
	}
	tracker.Update(func(b *Batch) {
		b.Fork(100, 10, 20)
		b.Exit(200, 20)
		b.Fork(300, 11, 20)
	})
	tracker.Reap(250)
	p, ok := store.process(20)
	if got, want := ranges(p), []uint64{0x1000, 0x3000}; !ok || !slices.Equal(got, want) {
		t.Errorf("second process 20 has mappings %x, want %x", got, want)
	}
}

func TestLostRecords(t *testing.T) {
	fs := fakeProc(t)
	tracker, store := newTracker(t, fs)
	if err := tracker.Scan(); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(fs.Root, "10")); err != nil {
		t.Fatal(err)
	}
	tracker.Update(func(b *Batch) { b.Lost(1) })
	tracker.Reap(1000)
	if _, ok := store.process(10); ok {
		t.Error("a process whose end was lost is still known")
	}
	if p, _ := store.process(11); len(p.Mappings) != 2 {
		t.Errorf("a process that lives has mappings %+v", p.Mappings)
	}
}

func TestIgnore(t *testing.T) {
	tracker, store := newTracker(t, fakeProc(t))
	if err := tracker.Scan(); err != nil {
		t.Fatal(err)
	}
	tracker.Ignore(10, true)
	if p, _ := store.process(10); !p.Ignore || len(p.Mappings) != 1 {
		t.Errorf("ignored process is %+v", p)
	}
	tracker.IgnoreNone()
	if p, _ := store.process(10); p.Ignore {
		t.Error("a process is still ignored")
	}
}

// TestSampleOnly: all processes that are not listed are ignored, also new ones, and processes that start another
// program.
func TestSampleOnly(t *testing.T) {
	tracker, store := newTracker(t, fakeProc(t))
	if err := tracker.Scan(); err != nil {
		t.Fatal(err)
	}
	ignored := func(pid uint32) bool {
		p, ok := store.process(pid)
		if !ok {
			t.Fatalf("process %d is not known", pid)
		}
		return p.Ignore
	}
	tracker.SampleOnly(map[uint32]bool{10: true})
	tracker.Update(func(b *Batch) { b.Fork(1, 10, 11) })
	if ignored(10) || !ignored(11) {
		t.Errorf("ignored: 10 %v, 11 %v; 10 is the only one to sample", ignored(10), ignored(11))
	}
	tracker.SampleOnly(map[uint32]bool{11: true})
	tracker.Update(func(b *Batch) { b.Exec(2, 11, "other") })
	if !ignored(10) || ignored(11) {
		t.Errorf("ignored: 10 %v, 11 %v; 11 is the only one to sample", ignored(10), ignored(11))
	}
	tracker.SampleOnly(nil)
	if ignored(10) || ignored(11) {
		t.Error("a process is ignored, all are to be sampled")
	}
}

// TestReplacedMapping: after a file is mapped over another, walks by the earlier mappings are stale, until the store
// has got the new mappings.
func TestReplacedMapping(t *testing.T) {
	const start = 0x10_0000_0000
	tracker, store := newTracker(t, procfs.Default)
	pid := uint32(os.Getpid())
	mapOf := func(path string, at uint64) procfs.Mapping {
		f, err := elffile.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		var st unix.Stat_t
		if err := unix.Stat(path, &st); err != nil {
			t.Fatal(err)
		}
		s := f.TextSegments()[0]
		return procfs.Mapping{
			Start: at, End: at + s.Filesz&^4095 + 4096, Offset: s.Offset &^ 4095,
			Dev: st.Dev, Inode: st.Ino, Path: path,
		}
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	tracker.Update(func(b *Batch) {
		b.Exec(100, pid, "self")
		b.Map(110, pid, mapOf(self, start))
		b.Map(120, pid, mapOf(self, start+1<<32))
	})
	first, _ := store.process(pid)
	stale := func(time uint64, generation uint32) bool { v := tracker.At(pid, time); return v.Stale(generation) }
	if stale(200, first.Generation) {
		t.Fatal("stale without a change")
	}
	tracker.Update(func(b *Batch) { b.Map(300, pid, mapOf("/bin/sh", start)) })
	second, _ := store.process(pid)
	tracker.Update(func(b *Batch) { b.Map(400, pid, mapOf("/bin/sh", start+2<<32)) })
	for _, s := range []struct {
		time       uint64
		generation uint32
		stale      bool
	}{
		{299, first.Generation, false}, {301, first.Generation, true},
		{301, second.Generation, false}, {401, second.Generation, false},
	} {
		if got := stale(s.time, s.generation); got != s.stale {
			t.Errorf("at %d, by generation %d: stale is %v", s.time, s.generation, got)
		}
	}
}

// TestMemoryForCode: memory in which a Java VM may put code is mapped over another mapping, as when the VM commits more
// of its reserved memory.
func TestMemoryForCode(t *testing.T) {
	tracker, _ := newTracker(t, procfs.Default)
	pid := uint32(os.Getpid())
	memory := procfs.Mapping{Start: 0x10_0000_0000, End: 0x10_0010_0000}
	tracker.Update(func(b *Batch) {
		b.Exec(100, pid, "java")
		b.Map(110, pid, memory)
	})
	vm := &attachment{exe: &Executable{}, tried: time.Now().Add(time.Hour)} // not looked for in this test
	tracker.state.processes[pid].attached = []*attachment{vm}
	tracker.Update(func(b *Batch) { b.Map(120, pid, memory) })
	if !slices.Contains(vm.waiting, memory) {
		t.Errorf("%+v waits for the VM, not the memory it may use", vm.waiting)
	}
}

// TestErrorsNameTheFile: the error of a file is reported once, in whatever processes the file is mapped and however
// often it was written to.
func TestErrorsNameTheFile(t *testing.T) {
	tracker, _ := newTracker(t, procfs.Default)
	path := filepath.Join(t.TempDir(), "jit-1.dump")
	for i := range 3 {
		if err := os.WriteFile(path, []byte(strings.Repeat("no program ", 10*(i+1))), 0o600); err != nil {
			t.Fatal(err)
		}
		file, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		mapped, err := unix.Mmap(int(file.Fd()), 0, os.Getpagesize(), unix.PROT_READ|unix.PROT_EXEC, unix.MAP_PRIVATE)
		if err != nil {
			t.Fatal(err)
		}
		defer unix.Munmap(mapped)
		if err := tracker.Scan(); err != nil {
			t.Fatal(err)
		}
	}
	var about []string
	for text := range tracker.Errors() {
		if strings.Contains(text, path) || strings.Contains(text, "map_files") {
			about = append(about, text)
		}
	}
	if len(about) != 1 || !strings.HasPrefix(about[0], "open ELF "+path+": ") {
		t.Errorf("%q", about)
	}
}

// TestEndedProcessIsNoError: an ended process causes no error. Failed reads of other processes are one error, whatever
// the addresses are.
func TestEndedProcessIsNoError(t *testing.T) {
	tracker, _ := newTracker(t, procfs.Default)
	ended := exec.Command("true")
	if err := ended.Run(); err != nil {
		t.Fatal(err)
	}
	for i := range int64(300) {
		for _, pid := range []int{ended.ProcessState.Pid(), os.Getpid()} {
			_, err := procfs.Default.Memory(uint32(pid)).ReadAt(make([]byte, 8), 0x100+8*i) // no memory is mapped there
			if err == nil {
				t.Fatal("it could be read")
			}
			tracker.failed(fmt.Errorf("[hotspot]: %w", err))
		}
	}
	want := map[string]uint64{"[hotspot]: read 8 bytes of process ... at 0x...: bad address": 300}
	if got := tracker.Errors(); !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// slowRuntime is a language that takes any file for its runtime. The runtime does not answer until it may.
type slowRuntime struct {
	language.NoInterpreter
	asked, mayAnswer chan bool
}

func (slowRuntime) Name() string { return "" }

func (s slowRuntime) Detect(string, *elffile.File) language.Library { return s }

func (s slowRuntime) Attach(language.Process) (language.Code, error) {
	s.asked <- true
	<-s.mayAnswer
	return nil, language.ErrUnknown
}

// TestReadersDoNotWait: while a runtime is asked for its code in a process, which may take long, samples of all
// processes can be resolved.
func TestReadersDoNotWait(t *testing.T) {
	slow := slowRuntime{asked: make(chan bool), mayAnswer: make(chan bool)}
	tracker := NewTracker(newMemoryStore(), procfs.FS{Root: t.TempDir()}, &filework.Pool{}, []language.Language{slow})
	t.Cleanup(tracker.Close)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	pid := uint32(os.Getpid())
	updated, read := make(chan bool), make(chan bool)
	go func() {
		tracker.Update(func(b *Batch) {
			b.Exec(100, pid, "slow")
			b.Map(110, pid, mappedAs(t, self, textAt))
			b.Map(110, pid, procfs.Mapping{Start: 0x1000, End: 0x2000})
		})
		close(updated)
	}()
	<-slow.asked
	go func() {
		if view := tracker.At(pid, 200); view.Comm() != "slow" {
			t.Errorf("the process is called %q", view.Comm())
		}
		close(read)
	}()
	select {
	case <-read:
	case <-time.After(2 * time.Minute):
		t.Error("a reader waits for the runtime")
	}
	close(slow.mayAnswer)
	<-updated
	if view := tracker.At(pid, 200); len(view.mappings) != 2 {
		t.Errorf("the process has mappings %+v, want the memory that waited as well", view.mappings)
	}
}

// TestAtAllocatesNothing: every sample looks up its process.
func TestAtAllocatesNothing(t *testing.T) {
	tracker, _ := newTracker(t, fakeProc(t))
	if err := tracker.Scan(); err != nil {
		t.Fatal(err)
	}
	var view View
	if n := testing.AllocsPerRun(1000, func() { view = tracker.At(11, 1) }); n > 0 || len(view.mappings) != 2 {
		t.Errorf("%v allocations for a view of %d mappings", n, len(view.mappings))
	}
}
