package process

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-kit/log"
	"github.com/stretchr/testify/require"

	"github.com/headwater/headwater/component"
	"github.com/headwater/headwater/component/discovery"
	"github.com/headwater/headwater/ebpf/host/procfs"
	"github.com/headwater/headwater/integration/testkit/need"
)

const (
	idA = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	idB = "b123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
)

// stat is /proc/PID/stat of a process that started 77 ticks after its host, and whose addresses are hidden.
const stat = "7 (prog) S 1 7 7 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 77 1 1 1 1 1 0 0 0"

// fakeProc makes a proc file system of one process.
func fakeProc(t *testing.T, pid int, cgroup string) procfs.FS {
	t.Helper()
	root := t.TempDir()
	dir := fmt.Sprintf("%s/%d", root, pid)
	require.NoError(t, os.Mkdir(dir, 0o755))
	require.NoError(t, os.Symlink("/bin/prog", dir+"/exe"))
	require.NoError(t, os.Symlink("/home", dir+"/cwd"))
	for name, text := range map[string]string{
		"cmdline": "prog\x00-a\x00b c\x00", "cgroup": cgroup, "stat": stat,
		"status": "Name:\tprog\nUid:\t0\t4294967294\t0\t0\nGid:\t5\t5\t5\t5\n",
	} {
		require.NoError(t, os.WriteFile(dir+"/"+name, []byte(text), 0o644))
	}
	return procfs.FS{Root: root}
}

var everything = Discover{Exe: true, Cwd: true, Commandline: true, ContainerID: true, CgroupPath: true,
	Username: true, UID: true}

func TestLabels(t *testing.T) {
	fs := fakeProc(t, 7, "12:cpu,cpuacct:/docker/"+idA+"\n0::/a\n")
	require.NoError(t, os.Mkdir(fs.Root+"/8", 0o755)) // a process that ends while it is read
	found, err := newLister(fs, log.NewNopLogger()).listTargets(everything, time.Minute)
	require.NoError(t, err)
	require.Equal(t, []discovery.Target{{
		"__process_pid__":            "7",
		"__process_instance__":       "77.0/1m0s",
		"__meta_process_exe":         "/bin/prog",
		"__meta_process_cwd":         "/home",
		"__meta_process_commandline": "prog -a b c",
		"__meta_process_username":    "root",
		"__meta_process_uid":         "0",
		"__meta_process_cgroup_path": "/docker/" + idA + "|/a",
		"__container_id__":           idA,
	}}, found)

	fs = fakeProc(t, 7, "0::/docker/"+idA+"/docker/"+idB+"\n")
	found, err = newLister(fs, log.NewNopLogger()).listTargets(Discover{ContainerID: true}, time.Minute)
	require.NoError(t, err)
	require.Equal(t, idB, found[0]["__container_id__"])
	require.Equal(t, idA, found[0]["__meta_process_outer_container_ids"])

	found, err = newLister(fs, log.NewNopLogger()).listTargets(Discover{}, time.Minute)
	require.NoError(t, err)
	require.Equal(t, []discovery.Target{{"__process_pid__": "7", "__process_instance__": "77.0/1m0s"}}, found)

	_, err = newLister(procfs.FS{Root: fs.Root + "/none"}, log.NewNopLogger()).listTargets(everything, time.Minute)
	require.Error(t, err)
}

// TestThisHost compares with ps.
func TestThisHost(t *testing.T) {
	need.Tools(t, "ps")
	cmd := exec.Command("sleep", "1000")
	cmd.Dir = t.TempDir()
	require.NoError(t, cmd.Start())
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	pid := strconv.Itoa(cmd.Process.Pid)
	want, err := exec.Command("ps", "-o", "user=,ruid=,args=", "-p", pid).Output()
	require.NoError(t, err)
	fields := strings.Fields(string(want))

	var got discovery.Target
	require.Eventually(t, func() bool { // between fork and exec it is still this test
		found, err := newLister(procfs.Default, log.NewNopLogger()).listTargets(everything, time.Minute)
		require.NoError(t, err)
		for _, f := range found {
			if f["__process_pid__"] == pid {
				got = f
			}
		}
		return strings.HasPrefix(got["__meta_process_commandline"], "sleep")
	}, 2*time.Minute, 10*time.Millisecond)
	require.Equal(t, fields[0], got["__meta_process_username"])
	require.Equal(t, fields[1], got["__meta_process_uid"])
	require.Equal(t, strings.Join(fields[2:], " "), got["__meta_process_commandline"])
	require.Equal(t, cmd.Dir, got["__meta_process_cwd"])
}

func TestJoin(t *testing.T) {
	processes := []discovery.Target{
		{"__process_pid__": "1", "__meta_process_exe": "/a"},
		{"__process_pid__": "2", "__container_id__": idA, "name": "process"},
		{"__process_pid__": "3", "__container_id__": idB},
	}
	containers := []discovery.Target{
		{"no": "container"},
		{"__meta_docker_container_id": idA, "name": "container"},
		{"__meta_kubernetes_pod_container_id": "containerd://" + "c", "name": "idle"},
	}
	require.Equal(t, []discovery.Target{
		{"no": "container"},
		{"__process_pid__": "1", "__meta_process_exe": "/a"},
		{"__process_pid__": "2", "__container_id__": idA, "__meta_docker_container_id": idA, "name": "container"},
		{"__process_pid__": "3", "__container_id__": idB},
		{"__meta_docker_container_id": idA, "name": "container"},
		{"__meta_kubernetes_pod_container_id": "containerd://" + "c", "name": "idle"},
	}, joinContainers(processes, containers))
	require.NotContains(t, processes[1], "__meta_docker_container_id", "what came in is not changed")
	require.Equal(t, processes, joinContainers(processes, nil))

	nested := []discovery.Target{{"__container_id__": idB, "__meta_process_outer_container_ids": "d," + idA}}
	require.Equal(t, "container", joinContainers(nested, containers)[1]["name"], "of the container around its own")
	own := discovery.Target{"__container_id__": idB, "name": "inner"}
	require.Equal(t, "inner", joinContainers(nested, append(containers, own))[1]["name"])
}

func TestRun(t *testing.T) {
	var mu sync.Mutex
	var exports []discovery.Exports
	fs := fakeProc(t, 7, "0::/\n")
	args := Arguments{}
	args.SetToDefault()
	c := newComponent(component.Options{Logger: log.NewNopLogger(), OnStateChange: func(e component.Exports) {
		mu.Lock()
		defer mu.Unlock()
		exports = append(exports, e.(discovery.Exports))
	}}, args, fs)
	last := func() []discovery.Target {
		mu.Lock()
		defer mu.Unlock()
		if len(exports) == 0 {
			return nil
		}
		return exports[len(exports)-1].Targets
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- c.Run(ctx) }()
	require.Eventually(t, func() bool { return len(last()) == 1 }, 2*time.Minute, time.Millisecond, "at once")
	require.Equal(t, component.HealthTypeHealthy, c.CurrentHealth().Health)

	args.Join = []discovery.Target{{"x": "y"}}
	args.RefreshInterval = time.Millisecond
	require.NoError(t, c.Update(args))
	require.Eventually(t, func() bool { return len(last()) == 2 }, 2*time.Minute, time.Millisecond)
	require.NoError(t, os.RemoveAll(fs.Root))
	require.Eventually(t, func() bool { return c.CurrentHealth().Health == component.HealthTypeUnhealthy }, 2*time.Minute,
		time.Millisecond)
	cancel()
	require.NoError(t, <-done)
	require.NoError(t, c.Update(args), "after Run has ended, too")
	require.Error(t, c.Update(1))
}
