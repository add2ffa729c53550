package process

import (
	"debug/elf"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/headwater/headwater/ebpf/common/clock"
	"github.com/headwater/headwater/ebpf/host/procfs"
	"github.com/headwater/headwater/ebpf/object/elffile"
	"github.com/headwater/headwater/ebpf/unwind"
	"github.com/headwater/headwater/integration/testkit"
	"github.com/headwater/headwater/integration/testkit/need"
)

// builtProgram builds a program with symbols.
func builtProgram(t testing.TB, dir, name, source string, flags ...string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path+".c", []byte(source), 0o644); err != nil {
		t.Fatal(err)
	}
	tool(t, "gcc", append([]string{"-o", path, path + ".c"}, flags...)...)
	return path
}

// tool runs a program that a test needs.
func tool(t testing.TB, name string, args ...string) {
	t.Helper()
	need.Tools(t, name)
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %v: %v\n%s", name, args, err, out)
	}
}

func copyFile(t testing.TB, from, to string) {
	t.Helper()
	b, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, b, 0o755); err != nil {
		t.Fatal(err)
	}
}

const smallProgram = "int helper(int n) { return n * 3; } int main(int n, char **v) { return helper(n); }"

// mappedAs returns the mapping of a file's text at an address.
func mappedAs(t testing.TB, path string, at uint64) procfs.Mapping {
	t.Helper()
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
	page := uint64(os.Getpagesize())
	return procfs.Mapping{
		Start: at, End: at + (s.Filesz+page)&^(page-1), Offset: s.Offset &^ (page - 1),
		Dev: st.Dev, Inode: st.Ino, Path: path,
	}
}

// hosts is a Tracker of processes that this host does not have, each with one file.
type hosts struct {
	*Tracker
	t     testing.TB
	store *memoryStore
	next  uint32
}

func newHosts(t *testing.T) *hosts {
	tracker, store := newTracker(t, procfs.FS{Root: t.TempDir()})
	return &hosts{tracker, t, store, 1 << 20}
}

const textAt = 0x10_0000_0000

// run lets a process map a file, and a walk ask for its rows.
func (h *hosts) run(path string) (pid uint32) {
	h.t.Helper()
	h.next++
	pid = h.next
	m := mappedAs(h.t, path, textAt)
	h.Update(func(b *Batch) {
		b.Exec(clock.Monotonic(), pid, "program")
		b.Map(clock.Monotonic(), pid, m)
	})
	view := h.At(pid, math.MaxUint64)
	if rule, outcome := view.Rule(textAt + 0x100); outcome != unwind.Unset {
		h.t.Errorf("%s: rule %v, outcome %v", path, rule, outcome)
	}
	return pid
}

// settled waits until all comparisons are done.
func (h *hosts) settled() {
	h.t.Helper()
	testkit.Eventually(h.t, "all files are compared", func() bool {
		h.exes.mu.Lock()
		defer h.exes.mu.Unlock()
		return !h.exes.sharing.working
	})
	h.Reap(0)
}

func (h *hosts) executable(pid uint32) *Executable {
	h.t.Helper()
	view := h.At(pid, math.MaxUint64)
	id, _ := view.Locate(textAt)
	e := h.Executable(id)
	if e == nil {
		h.t.Fatalf("process %d has no executable", pid)
	}
	return e
}

// directory returns the directory in which walks in the kernel look up the rows of a process.
func (h *hosts) directory(pid uint32) unwind.Directory {
	p, _ := h.store.process(pid)
	if len(p.Mappings) != 1 {
		h.t.Fatalf("process %d has mappings %+v", pid, p.Mappings)
	}
	return p.Mappings[0].Directory
}

func openFiles(t testing.TB) int {
	names, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(names)
}

func heapInUse() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// TestCopiesShareTables has 200 processes run 200 copies of a program, as containers of one image do. All use the
// tables, the source of names and the open file of one copy.
func TestCopiesShareTables(t *testing.T) {
	const copies = 200
	dir := t.TempDir()
	program := builtProgram(t, dir, "program", smallProgram)
	h := newHosts(t)
	first := h.run(program)
	h.settled()
	heapOfOne, filesOfOne := heapInUse(), openFiles(t)
	pids := []uint32{first}
	for i := range copies - 1 {
		path := filepath.Join(dir, fmt.Sprint("copy", i))
		copyFile(t, program, path)
		pids = append(pids, h.run(path))
	}
	h.settled()
	sweepImages(h)

	want, source := h.directory(first), h.Source(h.executable(first))
	paths := map[string]bool{}
	for _, pid := range pids {
		e := h.executable(pid)
		paths[e.Path] = true
		if got := h.directory(pid); got != want {
			t.Errorf("%s has rows in %+v, want %+v", e.Path, got, want)
		}
		if got := h.Source(e); got.ID != source.ID {
			t.Errorf("%s has the names of executable %d, want %d", e.Path, got.ID, source.ID)
		}
	}
	if len(paths) != copies {
		t.Errorf("%d files in frames, want %d", len(paths), copies)
	}
	if directories, pages := h.store.sizes(); directories != 1 || pages != 1 {
		t.Errorf("%d directories, %d pages, want those of one", directories, pages)
	}
	if more := openFiles(t) - filesOfOne; more > copies { // one descriptor for each copy, and the runtime's own
		t.Errorf("%d more open files than with one copy", more)
	}
	each := (int64(heapInUse()) - int64(heapOfOne)) / (copies - 1)
	t.Logf("%d copies: 1 directory, 1 page, %d bytes of heap for each copy and its process", copies, each)
	if each > 4096 {
		t.Errorf("%d bytes of heap for each copy", each)
	}
	// A walk finds its rows where they were before.
	last := pids[len(pids)-1]
	view := h.At(last, math.MaxUint64)
	if _, outcome := view.Rule(textAt + 0x100); outcome != unwind.Unset {
		t.Errorf("outcome %v after sharing", outcome)
	}
}

// TestSharedFileIsHeld: a file whose executable shares another image is recognized without opening it, until it is
// written to.
func TestSharedFileIsHeld(t *testing.T) {
	dir := t.TempDir()
	program := builtProgram(t, dir, "program", smallProgram)
	other := builtProgram(t, dir, "other", smallProgram+" int more(int *p) { return p[0] + p[1]; }")
	path := filepath.Join(dir, "copy")
	copyFile(t, program, path)
	h := newHosts(t)
	owner, shared := h.executable(h.run(program)), h.executable(h.run(path))
	h.settled()
	sweepImages(h)
	if shared.image.Load().first == shared {
		shared, owner, path = owner, shared, program
	}
	if shared.image.Load().first != owner {
		t.Fatal("equal files do not share an image")
	}
	m := mappedAs(t, path, textAt)
	known := func() *Executable {
		e, _ := h.exes.known(clock.Monotonic(), &m)
		h.exes.release(e)
		return e
	}
	if known() != shared {
		t.Error("a file that shares the image of another must be opened again")
	}
	copyFile(t, other, path)
	if known() != nil {
		t.Error("a file that was written to is taken for what it was")
	}
	if h.Sweep(time.Hour); !shared.stale {
		t.Error("it is not noticed that a file was written to")
	}
}

// sweepImages closes all unused images, as the Tracker does some seconds later.
func sweepImages(h *hosts) {
	h.exes.mu.Lock()
	defer h.exes.mu.Unlock()
	h.exes.sharing.sweep(h.store, time.Now())
}

func (s *memoryStore) sizes() (directories, pages int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.pages {
		pages += len(p)
	}
	return len(s.pages), pages
}

// TestOtherContentSharesNothing uses files that equal a program except for one byte or one section. All have its build
// ID and program headers.
func TestOtherContentSharesNothing(t *testing.T) {
	dir := t.TempDir()
	program := builtProgram(t, dir, "program", smallProgram)
	at := map[string]int64{}
	f, err := elf.Open(program)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, s := range f.Sections {
		at[s.Name] = int64(s.Offset + s.Size - 1)
	}
	files := map[string]string{"program": program}
	for _, section := range []string{".text", ".eh_frame", ".eh_frame_hdr"} {
		if at[section] == 0 {
			t.Fatalf("no section %s", section)
		}
		path := filepath.Join(dir, "other"+section)
		copyFile(t, program, path)
		flipByte(t, path, at[section])
		files[section] = path
	}
	updated := filepath.Join(dir, "updated")
	empty := filepath.Join(dir, "frames")
	if err := os.WriteFile(empty, make([]byte, 64), 0o644); err != nil {
		t.Fatal(err)
	}
	tool(t, "objcopy", "--add-section", ".debug_frame="+empty, program, updated)
	files[".debug_frame"] = updated
	if a, b := buildIDOf(t, program), buildIDOf(t, updated); a == "" || a != b {
		t.Fatalf("build IDs %q and %q", a, b)
	}

	for _, first := range []string{"program", ".text"} { // the original is not always the first
		h := newHosts(t)
		pids := map[string]uint32{first: h.run(files[first])}
		for name, path := range files {
			if name != first {
				pids[name] = h.run(path)
			}
		}
		h.settled()
		directories := map[unwind.Directory]string{}
		for name, pid := range pids {
			if other, ok := directories[h.directory(pid)]; ok {
				t.Errorf("%s has the rows of %s", name, other)
			}
			directories[h.directory(pid)] = name
			// Bytes that are not loaded do not change the names of code.
			if e := h.executable(pid); h.Source(e).ID != e.ID {
				t.Errorf("%s is named by %s", name, h.Source(e).Path)
			}
		}
	}
}

func flipByte(t testing.TB, path string, at int64) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var b [1]byte
	if _, err := f.ReadAt(b[:], at); err != nil && err != io.EOF {
		t.Fatal(err)
	}
	b[0] ^= 0xff
	if _, err := f.WriteAt(b[:], at); err != nil {
		t.Fatal(err)
	}
}

func buildIDOf(t testing.TB, path string) string {
	f, err := elffile.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	return f.BuildID()
}

// TestNamesComeFromTheRichest runs a stripped copy of a program before and after the program itself. Either way, the
// copy has the program's names.
func TestNamesComeFromTheRichest(t *testing.T) {
	dir := t.TempDir()
	program := builtProgram(t, dir, "program", smallProgram)
	stripped := filepath.Join(dir, "stripped")
	tool(t, "strip", "-o", stripped, program)
	for _, order := range [][2]string{{program, stripped}, {stripped, program}} {
		h := newHosts(t)
		pids := []uint32{h.run(order[0]), h.run(order[1])}
		h.settled()
		for _, pid := range pids {
			source := h.Source(h.executable(pid))
			if source.Path != program {
				t.Errorf("%s first: %s is named by %s", order[0], h.executable(pid).Path, source.Path)
			}
			f, err := source.Open()
			if err != nil {
				t.Fatal(err)
			}
			if !f.HasSymtab() {
				t.Errorf("%s first: names of %s come from a file without symbols", order[0], h.executable(pid).Path)
			}
			f.Close()
		}
	}
}

// TestRenamedSymbols uses copies of a program with other symbols or other DWARF data of the same size. Each copy keeps
// its own names.
func TestRenamedSymbols(t *testing.T) {
	dir := t.TempDir()
	program := builtProgram(t, dir, "program", smallProgram, "-g")
	path := func(name string) string { return filepath.Join(dir, name) }
	tool(t, "objcopy", "--redefine-sym", "helper=renamed", program, path("symbols"))
	f, err := elf.Open(program)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	copyFile(t, program, path("debug"))
	flipByte(t, path("debug"), int64(f.Section(".debug_info").Offset+20))
	tool(t, "strip", "-g", "-o", path("nodebug"), program)
	h := newHosts(t)
	pids := []uint32{h.run(program), h.run(path("symbols")), h.run(path("debug")), h.run(path("nodebug"))}
	h.settled()
	for i, want := range []string{program, path("symbols"), path("debug"), path("nodebug")} {
		if got := h.Source(h.executable(pids[i])).Path; got != want {
			t.Errorf("%s is named by %s, want %s", h.executable(pids[i]).Path, got, want)
		}
	}
}

// TestOthersFilesAreNotTrusted: a user may run an equal copy of root's file, and change it afterwards. The copy has the
// tables of root's file after root's file is known, but root's file never has the tables of a copy.
func TestOthersFilesAreNotTrusted(t *testing.T) {
	need.Root(t)
	const user, other = 1234, 1235
	dir := t.TempDir()
	roots := builtProgram(t, dir, "program", smallProgram)
	of := func(name string, uid int, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		copyFile(t, roots, path)
		if err := os.Chown(path, uid, uid); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	h := newHosts(t)
	users := h.run(of("users", user, 0o755))
	others := h.run(of("others", other, 0o755))
	writable := h.run(of("writable", 0, 0o757))
	h.settled()
	if h.directory(users) == h.directory(others) {
		t.Error("a user's file has the rows of another user's")
	}
	root := h.run(roots)
	own := h.directory(root)
	h.settled()
	late := h.run(of("late", other, 0o755))
	h.settled()
	if h.directory(root) != own || h.Source(h.executable(root)).Path != roots {
		t.Errorf("root's file has the rows of another, and the names of %s", h.Source(h.executable(root)).Path)
	}
	if h.directory(writable) == own {
		t.Error("a file that all may write to shares its rows")
	}
	if h.directory(late) != h.directory(root) {
		t.Error("a user's file does not have the rows of root's")
	}
}

// TestRewrittenFile has a library written to in place, and replaced by another library of the same name, while
// processes have it mapped.
func TestRewrittenFile(t *testing.T) {
	dir := t.TempDir()
	program := builtProgram(t, dir, "program", smallProgram)
	bigger := builtProgram(t, dir, "bigger", smallProgram+" int more(int *p) { return p[0] + p[1]; }")
	path := filepath.Join(dir, "mapped")
	copyFile(t, program, path)
	h := newHosts(t)
	before := h.run(path)
	old := h.executable(before)

	copyFile(t, bigger, path+".new")
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
	renamed := h.run(path)
	e := h.executable(renamed)
	if e == old {
		t.Error("a file that was put in the place of another is taken for it")
	}
	if h.executable(before) != old {
		t.Error("who had mapped the file that was there has lost it")
	}
	if f, err := old.Open(); err != nil {
		t.Errorf("the file that was there: %v", err)
	} else {
		f.Close()
	}

	copyFile(t, program, path) // truncates it and writes to it
	rewritten := h.executable(h.run(path))
	if rewritten == e {
		t.Error("a file that was written to is taken for what it was")
	}
	if f, err := e.Open(); err == nil {
		f.Close()
		t.Error("what was written over can be read")
	}
}

// TestOneLookForManyMappings: a file is checked again only for a mapping that is newer than the last check.
func TestOneLookForManyMappings(t *testing.T) {
	dir := t.TempDir()
	path := builtProgram(t, dir, "program", smallProgram)
	other := builtProgram(t, dir, "other", smallProgram+" int more(int *p) { return p[0] + p[1]; }")
	h := newHosts(t)
	m := mappedAs(t, path, textAt)
	at := func(time uint64) *Executable {
		h.next++
		pid := h.next
		h.Update(func(b *Batch) {
			b.Exec(time, pid, "program")
			b.Map(time, pid, m)
		})
		return h.executable(pid)
	}
	at(clock.Monotonic()) // opens it
	e := at(clock.Monotonic())
	looked := e.unchangedUntil
	if at(looked) != e || e.unchangedUntil != looked {
		t.Error("a file is looked at for a mapping of before the last look")
	}
	copyFile(t, other, path)
	if at(looked) != e {
		t.Error("what was mapped before a file was written to is not what it was")
	}
	if at(clock.Monotonic()) == e {
		t.Error("a file that was written to is taken for what it was")
	}
	if at(looked) == e {
		t.Error("a file is taken for what it was though it is known to have changed")
	}
}

// TestProcessGoneBeforeItsFileIsOpened: a mapping of a process that is gone has a file only if that certainly was the
// mapped file.
func TestProcessGoneBeforeItsFileIsOpened(t *testing.T) {
	dir := t.TempDir()
	program := builtProgram(t, dir, "program", smallProgram)
	mapped := mappedAs(t, program, textAt)
	at := func(h *hosts, m procfs.Mapping) unwind.ExeID {
		h.next++
		pid := h.next
		h.Update(func(b *Batch) {
			b.Exec(clock.Monotonic(), pid, "program")
			b.Map(clock.Monotonic(), pid, m)
		})
		view := h.At(pid, math.MaxUint64)
		id, _ := view.Locate(textAt)
		return id
	}
	for name, change := range map[string]func(*procfs.Mapping){
		"another inode":  func(m *procfs.Mapping) { m.Inode++ },
		"another device": func(m *procfs.Mapping) { m.Dev++ },
		"no such path":   func(m *procfs.Mapping) { m.Path += "2" },
	} {
		h := newHosts(t)
		other := mapped
		change(&other)
		if id := at(h, other); id != 0 {
			t.Errorf("%s: taken for %s", name, h.Executable(id).Path)
		}
	}
	h := newHosts(t)
	id := at(h, mapped)
	if id == 0 {
		t.Fatal("not found by its name, device and inode")
	}
	// While it is open, it is recognized under any name.
	elsewhere := mapped
	elsewhere.Path = "/hidden/in/a/container"
	if id := at(h, elsewhere); id == 0 {
		t.Error("a file that is held open is not known by its device and inode")
	}
	if err := os.Remove(program); err != nil {
		t.Fatal(err)
	}
	if id := at(h, mapped); id == 0 {
		t.Error("a file that is held open is not known once it is deleted")
	}
	held := fmt.Sprintf("/proc/self/fd/%d", h.Executable(id).image.Load().elf.Fd())
	if err := os.WriteFile(held, []byte("other"), 0o644); err != nil {
		t.Fatal(err)
	}
	if id := at(h, mapped); id != 0 {
		t.Error("a file that was written to is believed to be what a process had")
	}
}
