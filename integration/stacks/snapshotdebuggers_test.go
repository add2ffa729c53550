package stacks

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/headwater/headwater/integration/testkit"
	"github.com/headwater/headwater/integration/testkit/need"
	"github.com/headwater/headwater/integration/testkit/rig"
)

// compareDebuggers compares all threads of a process with eu-stack and with gdb, frame by frame by address. The process
// is stopped in the meantime, so that all three see the same state.
func compareDebuggers(t testing.TB, pid int) {
	t.Helper()
	need.Tools(t, "eu-stack", "gdb")
	stop(t, pid)
	defer signal(t, pid, syscall.SIGCONT)
	s := takeSnapshot(t, pid)
	native := nativeThreads(t, "-p", fmt.Sprint(pid))
	debugger := gdbAddresses(t, pid)
	if len(s.Threads) == 0 || len(native) != len(s.Threads) || len(debugger) != len(s.Threads) {
		t.Errorf("%d threads, eu-stack has %d and gdb %d", len(s.Threads), len(native), len(debugger))
	}
	addresses := rawAddresses(t, pid)
	frames, whole := 0, 0 // of gdb: those that it has, and stacks that it has to their root
	for _, thread := range s.Threads {
		if !thread.Whole {
			t.Errorf("thread %d is not whole: %s", thread.TID, thread.Reason)
		}
		ours := thread.addresses(t)
		inFiles := slices.DeleteFunc(native[thread.TID], func(f nativeFrame) bool { return f.module == "" })
		if theirs := thread.upToRoot(namesOf(inFiles), len(ours)); !slices.Equal(ours, theirs) {
			t.Errorf("thread %d %q: frames\n%v, eu-stack has\n%v", thread.TID, thread.Name, ours, theirs)
		}
		for _, f := range thread.ofKind("jit") {
			if !slices.Contains(addresses[thread.TID], f.Address) {
				t.Errorf("thread %d %q: generated code %+v, eu-stack has\n%v", thread.TID, thread.Name, f, addresses[thread.TID])
			}
		}
		theirs := debugger[thread.TID]
		if end := slices.Index(theirs, ""); end >= 0 {
			theirs = theirs[:end]
		}
		theirs = thread.upToRoot(theirs, len(ours))
		same := 0
		for same < min(len(ours), len(theirs)) && ours[same] == theirs[same] {
			same++
		}
		if same < thread.beforeRuntime() || same == len(ours) && len(theirs) > same {
			t.Errorf("thread %d %q: frames\n%v, gdb has\n%v", thread.TID, thread.Name, ours, debugger[thread.TID])
		}
		frames += same
		if same == len(ours) {
			whole++
		}
	}
	t.Logf("%d threads as eu-stack has them; %d as gdb, which has %d frames", len(s.Threads), whole, frames)
}

// rawAddresses returns the addresses in memory of the frames of each thread, as eu-stack has them.
func rawAddresses(t testing.TB, pid int) map[int][]string {
	t.Helper()
	out, _ := urgent(t, exec.Command("eu-stack", "--raw", "-n", "0", "-p", fmt.Sprint(pid))) // 1: not all was well
	stacks, tid := map[int][]string{}, 0
	for line := range strings.Lines(out) {
		fields := strings.Fields(line)
		switch {
		case len(fields) == 2 && fields[0] == "TID":
			tid, _ = strconv.Atoi(strings.TrimSuffix(fields[1], ":")) // digits
		case len(fields) > 1 && strings.HasPrefix(fields[0], "#"):
			stacks[tid] = append(stacks[tid], "0x"+strings.TrimLeft(fields[1], "0x"))
		}
	}
	return stacks
}

// upToRoot leaves out what debuggers have above Go's root of a thread: what made the thread.
func (s *snapshotThread) upToRoot(theirs []string, root int) []string {
	if s.Frames[len(s.Frames)-1].Function == "runtime.mstart" {
		return theirs[:min(root, len(theirs))]
	}
	return theirs
}

// beforeRuntime counts the native frames below the first frame of a language runtime. There gdb may take an unrelated
// stack slot for a return address.
func (s *snapshotThread) beforeRuntime() (n int) {
	for _, f := range s.Frames {
		switch {
		case f.Kind == "interpreted" || f.Kind == "jit":
			return n
		case f.Kind == "native" && !f.Inlined:
			n++
		}
	}
	return n
}

func signal(t testing.TB, pid int, s syscall.Signal) {
	t.Helper()
	if err := syscall.Kill(pid, s); err != nil {
		t.Errorf("send %v to %d: %v", s, pid, err)
	}
}

// stop stops a process, and waits until all of its threads stand.
func stop(t testing.TB, pid int) {
	t.Helper()
	signal(t, pid, syscall.SIGSTOP)
	testkit.Eventually(t, "all threads are stopped", func() bool {
		files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", pid))
		running := func(file string) bool { return !strings.Contains(rig.ReadFile(t, file), "\nState:\tT") }
		return err == nil && len(files) > 0 && !slices.ContainsFunc(files, running)
	})
}

// gdbAddresses returns "module+address" of the frames of each thread, leaf first; for callers the address inside the
// call. It is "" for code outside files.
func gdbAddresses(t testing.TB, pid int) map[int][]string {
	t.Helper()
	out, err := urgent(t, exec.Command("gdb", "-batch", "-nx", "-p", fmt.Sprint(pid), "-ex", "set backtrace past-main on",
		"-x", "testdata/snapshot/frames.py"))
	if err != nil {
		t.Fatalf("gdb: %v\n%s", err, out)
	}
	files := mappedFiles(t, pid)
	stacks, tid := map[int][]string{}, 0
	for line := range strings.Lines(out) {
		var pc uint64
		switch line = strings.TrimSpace(line); {
		case strings.HasPrefix(line, "thread "):
			tid, err = strconv.Atoi(line[len("thread "):])
		case strings.HasPrefix(line, "frame ") && strings.HasSuffix(line, " function"):
			_, err = fmt.Sscanf(line, "frame 0x%x", &pc)
			stacks[tid] = append(stacks[tid], atAddress(files, pc, len(stacks[tid]) > 0))
		}
		if err != nil {
			t.Fatalf("gdb: %q: %v", line, err)
		}
	}
	return stacks
}

// mappedFile is where a process has a part of a file.
type mappedFile struct {
	start, end uint64
	path       string
	bias       uint64 // what addresses in the process have more than those in the file
}

func mappedFiles(t testing.TB, pid int) (files []mappedFile) {
	t.Helper()
	bias := map[string]uint64{}
	for line := range strings.Lines(rig.ReadFile(t, fmt.Sprintf("/proc/%d/maps", pid))) {
		fields := strings.Fields(line)
		if len(fields) != 6 || !filepath.IsAbs(fields[5]) {
			continue
		}
		file := mappedFile{path: fields[5]}
		if _, err := fmt.Sscanf(fields[0], "%x-%x", &file.start, &file.end); err != nil {
			t.Fatalf("maps: %q: %v", line, err)
		}
		if _, known := bias[file.path]; !known && !linkedInPlace(file.path) {
			bias[file.path] = file.start // libraries start at address 0 of their file
		}
		file.bias = bias[file.path]
		files = append(files, file)
	}
	return files
}

// atAddress is "module+address" of a pc, "" in no file.
func atAddress(files []mappedFile, pc uint64, caller bool) string {
	if caller {
		pc--
	}
	at := slices.IndexFunc(files, func(f mappedFile) bool { return f.start <= pc && pc < f.end })
	if at < 0 {
		return ""
	}
	return fmt.Sprintf("%s+0x%x", filepath.Base(files[at].path), pc-files[at].bias)
}

const fpmConfiguration = `[global]
error_log = /proc/self/fd/2
daemonize = no
[www]
listen = %[1]s/socket
user = nobody
pm = static
pm.max_children = 2
`

const fpmScript = `<?php
function inner() { sleep(3600); }
function outer($n) { $n ? outer($n - 1) : array_map(fn($x) => inner(), [1]); }
outer(5);
`

// TestSnapshotOfPHP compares Debian's php-fpm: its master, a worker that waits for a request, and one that handles one.
func TestSnapshotOfPHP(t *testing.T) {
	t.Parallel()
	need.Root(t)
	need.Tools(t, "php-fpm8.2", "cgi-fcgi")
	dir := rig.PublicDir(t)
	rig.WriteFile(t, dir+"/fpm.conf", fmt.Sprintf(fpmConfiguration, dir))
	rig.WriteFile(t, dir+"/wait.php", fpmScript)
	master := rig.Start(t, exec.Command("php-fpm8.2", "-n", "-y", dir+"/fpm.conf", "-F"))
	testkit.Eventually(t, "php-fpm is ready", func() bool {
		return strings.Contains(master.Output.String(), "ready to handle connections")
	})

	request := exec.Command("cgi-fcgi", "-bind", "-connect", dir+"/socket")
	request.Env = append(os.Environ(), "REQUEST_METHOD=GET", "SCRIPT_FILENAME="+dir+"/wait.php")
	rig.Start(t, request)
	var workers []int
	handles := func(pid int) bool { return takeSnapshot(t, pid).Threads[0].Wait == "sleep" }
	testkit.Eventually(t, "a worker handles the request", func() bool {
		workers = rig.Children(t, master.PID())
		return len(workers) == 2 && slices.ContainsFunc(workers, handles)
	})

	// The master first: it gets a signal when a worker is stopped.
	for _, pid := range append([]int{master.PID()}, workers...) {
		compareDebuggers(t, pid)
	}
}
