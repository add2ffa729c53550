package endurance

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/headwater/headwater/integration/testkit"
	"github.com/headwater/headwater/integration/testkit/fuse"
	"github.com/headwater/headwater/integration/testkit/need"
	"github.com/headwater/headwater/integration/testkit/rig"
)

// hostilePart is a process of an ordinary user that wants to stop a profiler, mislead it
// or use it up. It runs testdata/hostile, in a root directory of its own if it writes
// files.
type hostilePart struct {
	name  string   // of the program, and of its busy function
	flags []string // of the compiler
	args  []string
	// prepare changes the program and creates files next to it; it may be nil.
	prepare func(t testing.TB, dir, program string)
}

// noNames leaves a program without symbols and build ID: they are only in the debug file that its link names.
var noNames = []string{"-s", "-Wl,--build-id=none"}

// hostileParts returns all parts. twin is the build ID of another user's program.
func hostileParts(twin string) []hostilePart {
	bomb := func(size int64, older bool, ratio int64) func(testing.TB, string, string) {
		return func(t testing.TB, _, program string) { addSections(t, program, bombs(t, size, older, ratio)...) }
	}
	return []hostilePart{
		{"hwlinksparse", noNames, []string{"burn"}, hugeDebugFile(2 << 40)},
		{"hwlinkzeros", noNames, []string{"burn"}, hugeDebugFile(1 << 30)},
		{"hwlinkfifo", noNames, []string{"burn"}, debugLinkTo("fifo")},
		{"hwlinkdevice", noNames, []string{"burn"}, debugLinkTo("device")},
		{"hwmapfifo", nil, []string{"link", "/fifo"}, nil},
		{"hwmapdevice", nil, []string{"link", "/device"}, nil},
		{"hwdumpfifo", nil, []string{"relink", "/fifo"}, nil},
		{"hwdumpdevice", nil, []string{"relink", "/device"}, nil},
		{"hwdumplong", nil, []string{"dump"}, nil},
		{"hwmaprewrite", nil, []string{"rewrite"}, nil},
		{"hwbomb", nil, []string{"burn"}, bomb(1<<30, false, 0)},
		{"hwbombolder", nil, []string{"burn"}, bomb(1<<30, true, 0)},
		{"hwbombpadded", nil, []string{"burn"}, bomb(192<<20, false, 50)},
		{"hwbogus", nil, []string{"bogus"}, nil},
		{"hwtwin", []string{"-Wl,--build-id=0x" + twin}, []string{"burn"}, nil},
		{"hwhonest", nil, []string{"honest"}, nil}, // shows that such code has names at all
	}
}

// hugeDebugFile makes .gnu_debuglink name a debug file with symbols whose size is given and
// nearly all a hole. Its check sum differs from the one in the link.
func hugeDebugFile(size int64) func(testing.TB, string, string) {
	return func(t testing.TB, dir, program string) {
		t.Helper()
		debug := filepath.Join(dir, "hostile.debug")
		buildHostile(t, debug, filepath.Base(program), "-Wl,--build-id=none")
		if err := os.Truncate(debug, size); err != nil {
			t.Fatal(err)
		}
		addSections(t, program, linkSection("hostile.debug", 1))
	}
}

// debugLinkTo makes .gnu_debuglink name a symbolic link.
func debugLinkTo(target string) func(testing.TB, string, string) {
	return func(t testing.TB, dir, program string) {
		t.Helper()
		if err := os.Symlink(filepath.Join(dir, target), filepath.Join(dir, "hostile.debug")); err != nil {
			t.Fatal(err)
		}
		addSections(t, program, linkSection("hostile.debug", 1))
	}
}

// hostileHost is a host with all hostile parts.
type hostileHost struct {
	opened    int            // inotify(7): says when what must not be opened is
	processes []*rig.Process // of the parts
}

// startHostile starts all hostile parts, one of them on a file system that hangs, and one whose perf map is a link
// through /proc to a file that all users can open.
func startHostile(t testing.TB, twin string) *hostileHost {
	t.Helper()
	opened, err := unix.InotifyInit1(unix.IN_NONBLOCK | unix.IN_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(opened) })
	host := &hostileHost{opened: opened}
	dir := rig.PublicDir(t)
	for _, part := range hostileParts(twin) {
		root := filepath.Join(dir, part.name)
		host.makeRoot(t, root)
		program := filepath.Join(root, part.name)
		buildHostile(t, program, part.name, part.flags...)
		if part.prepare != nil {
			part.prepare(t, root, program)
		}
		inRoot := "/" + part.name
		if part.args[0] == "burn" {
			root, inRoot = "/", program
		}
		host.processes = append(host.processes, startAsNobody(t, root, append([]string{inRoot}, part.args...)...))
	}
	startThroughProc(t, dir)
	startOnHangingMount(t, dir)
	return host
}

// checkParts ends the test if a part no longer runs: it would never be met.
func (host *hostileHost) checkParts(t testing.TB) {
	t.Helper()
	for i, p := range host.processes {
		if p.Ended() {
			t.Fatalf("%s has ended: %v\n%s", hostileParts("")[i].name, p.Err, p.Output)
		}
	}
}

// makeRoot makes a root directory with a FIFO and an endless device, which must not be
// opened.
func (host *hostileHost) makeRoot(t testing.TB, root string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Join(root, "tmp"), 0o755); err != nil {
		t.Fatal(err)
	}
	fifo, device := filepath.Join(root, "fifo"), filepath.Join(root, "device")
	if err := unix.Mkfifo(fifo, 0o666); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mknod(device, unix.S_IFCHR|0o666, int(unix.Mkdev(1, 5))); err != nil { // /dev/zero
		need.Missing(t, "no device can be made: %v", err)
	}
	for _, path := range []string{filepath.Join(root, "tmp"), fifo, device} {
		if err := os.Chown(path, nobody, nobody); err != nil {
			t.Fatal(err)
		}
	}
	for _, path := range []string{fifo, device} {
		if _, err := unix.InotifyAddWatch(host.opened, path, unix.IN_OPEN|unix.IN_ACCESS); err != nil {
			t.Fatal(err)
		}
	}
}

// wasOpened reports whether any FIFO or device was opened.
func (host *hostileHost) wasOpened() bool {
	n, _ := unix.Read(host.opened, make([]byte, 4096)) // EAGAIN if there was no event
	return n > 0
}

// nobody is the user and the group of hostile processes.
const nobody = 65534

// buildHostile makes a program of testdata/hostile, which is compiled once and then copied.
func buildHostile(t testing.TB, path, function string, flags ...string) {
	t.Helper()
	const source = "testdata/hostile/hostile.c"
	args := append(flags, "-O2", "-Wall", "-Wextra", "-static", "-DFUNCTION="+function, source)
	copyProgram(t, path, "gcc", args, source)
}

// copyProgram copies a program to a path, where it may be changed. It is compiled once, as long as
// compiler, arguments and source stay the same.
func copyProgram(t testing.TB, path, compiler string, args []string, source string) {
	t.Helper()
	need.Tools(t, compiler)
	version, err := exec.Command(compiler, "--version").Output()
	if err != nil {
		t.Fatalf("%s --version: %v", compiler, err)
	}
	key := append([]string{string(version), rig.ReadFile(t, source), compiler}, args...)
	dir := testkit.Fixture(t, "hostile", key, func(dir string) error {
		cmd := exec.Command(compiler, append(slices.Clone(args), "-o", filepath.Join(dir, "program"))...)
		out, err := cmd.CombinedOutput()
		if err != nil {
			return fmt.Errorf("%s %v: %w\n%s", compiler, args, err, out)
		}
		return nil
	})
	testkit.CopyProgram(t, filepath.Join(dir, "program"), path)
}

// startAsNobody runs a command without privileges in a root directory.
func startAsNobody(t testing.TB, root string, args ...string) *rig.Process {
	t.Helper()
	need.Tools(t, "chroot")
	user := fmt.Sprintf("--userspec=%d:%d", nobody, nobody)
	return rig.Start(t, exec.Command("chroot", append([]string{user, "--groups=", root}, args...)...))
}

// startThroughProc runs a program whose perf map is a link through /proc to a valid map with
// the name "escaped".
func startThroughProc(t testing.TB, dir string) {
	t.Helper()
	dir = filepath.Join(dir, "throughproc")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	names, program := filepath.Join(dir, "names"), filepath.Join(dir, "hwmapproc")
	rig.WriteFile(t, names, "10000000 1000 escaped\n")
	if err := os.Chown(names, nobody, nobody); err != nil {
		t.Fatal(err)
	}
	buildHostile(t, program, "hwmapproc")
	p := startAsNobody(t, "/", program, "link", "/proc/self/root"+names)
	t.Cleanup(func() { os.Remove(fmt.Sprintf("/tmp/perf-%d.map", p.PID())) })
}

// startOnHangingMount runs a program whose root directory is of a file system that does
// not answer from then on.
func startOnHangingMount(t testing.TB, dir string) {
	t.Helper()
	const name = "hwhanging"
	program := filepath.Join(dir, name)
	buildHostile(t, program, name)
	server := fuse.Mount(t, dir, map[string][]byte{name: []byte(rig.ReadFile(t, program))})
	p := startAsNobody(t, server.Dir, "/"+name, "burn")
	p.WaitBusy(t)
	server.Hang(t)
}
