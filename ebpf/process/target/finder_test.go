package target

import (
	"errors"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/headwater/headwater/ebpf/host/procfs"
)

// fakeFS has a cgroup line for some processes and counts the reads.
type fakeFS struct {
	mu    sync.Mutex
	lines map[uint32]string
	reads map[uint32]int

	instances map[uint32]procfs.Instance
	ended     map[uint32]bool
}

func newFakeFS() *fakeFS {
	return &fakeFS{lines: map[uint32]string{}, reads: map[uint32]int{}, instances: map[uint32]procfs.Instance{},
		ended: map[uint32]bool{}}
}

func (f *fakeFS) Instance(pid uint32) (procfs.Instance, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ended[pid] {
		return procfs.Instance{}, unix.ESRCH
	}
	i, ok := f.instances[pid]
	if !ok {
		return procfs.Instance{}, errors.New("not readable")
	}
	return i, nil
}

func (f *fakeFS) Cgroup(pid uint32) ([]string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.reads[pid]++
	line, ok := f.lines[pid]
	if !ok {
		return nil, errors.New("no such process")
	}
	return []string{"0::/", line}, nil
}

func container(id, service string) map[string]string {
	return map[string]string{LabelContainerID: id, LabelServiceName: service}
}

func service(t *Target) string {
	if t == nil {
		return "(none)"
	}
	return t.ServiceName()
}

func TestFind(t *testing.T) {
	fs := newFakeFS()
	fs.lines[10] = "1:cpu:/docker/" + idA
	fs.lines[11] = "1:cpu:/docker/" + idB
	fs.lines[12] = "1:cpu:/user.slice"
	opts := Options{
		FS:      fs,
		Default: map[string]string{LabelServiceName: "host"},
		Targets: []map[string]string{
			container(idA, "a"), container(idA, "a, last"),
			{LabelProcessPID: "10", LabelServiceName: "by pid"},
			{"useless": "1"},
		},
	}
	f := NewFinder(opts)
	require.Equal(t, "by pid", service(f.Find(10)))
	require.Equal(t, "host", service(f.Find(11)), "a container without a target")
	require.Equal(t, "host", service(f.Find(12)), "in no container")
	require.Equal(t, "host", service(f.Find(13)), "gone")
	require.Nil(t, f.Processes(), "a container has any")
	require.Equal(t, map[uint32]bool{10: true}, NewFinder(Options{
		Targets: []map[string]string{{LabelProcessPID: "10"}, {"a": "b"}},
	}).Processes())
	require.Equal(t, Counts{Processes: 1, Containers: 1, Ignored: 1}, f.Counts())
	require.Len(t, f.Targets(), 2)

	opts.Targets, opts.TargetsOnly = opts.Targets[:2], true
	f.Update(opts)
	require.Equal(t, "a, last", service(f.Find(10)), "the last of equal keys wins")
	require.Nil(t, f.Find(11))
	require.Nil(t, f.Find(12))
}

func TestDefaultTargetWithoutLabels(t *testing.T) {
	f := NewFinder(Options{})
	require.Equal(t, map[string]string{"service_name": "unspecified", "__name__": "process_cpu"}, f.Find(1).Labels())
}

func TestFindRemembers(t *testing.T) {
	fs := newFakeFS()
	fs.lines[10] = "1:cpu:/docker/" + idA
	fs.lines[11] = "1:cpu:/docker/" + idB
	opts := Options{FS: fs, TargetsOnly: true, Targets: []map[string]string{container(idA, "a")}}
	f := NewFinder(opts)
	for range 3 {
		require.Equal(t, "a", service(f.Find(10)))
		require.Nil(t, f.Find(11))
		require.Nil(t, f.Find(12))
	}
	require.Equal(t, map[uint32]int{10: 1, 11: 1, 12: 1}, fs.reads)

	opts.Targets = append(opts.Targets, container(idB, "b"))
	fs.lines[12] = "1:cpu:/docker/" + idB
	f.Update(opts)
	require.Equal(t, "a", service(f.Find(10)))
	require.Equal(t, "b", service(f.Find(11)))
	require.Equal(t, "b", service(f.Find(12)))
	require.Equal(t, map[uint32]int{10: 1, 11: 1, 12: 2}, fs.reads,
		"containers are known, only what had none is read again")

	f.Forget(10)
	fs.lines[10] = "1:cpu:/docker/" + idB
	require.Equal(t, "b", service(f.Find(10)), "another process with the PID")
	f.Forget(99)
}

func TestRetry(t *testing.T) {
	fs := newFakeFS()
	fs.lines[10] = "1:cpu:/system.slice/docker.service"
	f := NewFinder(Options{FS: fs, TargetsOnly: true, Targets: []map[string]string{container(idA, "a")}})
	require.Nil(t, f.Find(10))
	fs.lines[10] = "1:cpu:/docker/" + idA
	require.Nil(t, f.Find(10))
	f.Retry()
	require.Equal(t, "a", service(f.Find(10)))
	f.Retry()
	require.Equal(t, "a", service(f.Find(10)))
	require.Equal(t, 2, fs.reads[10])
}

func TestNoCgroupReadWithoutContainerTargets(t *testing.T) {
	fs := newFakeFS()
	f := NewFinder(Options{FS: fs, Targets: []map[string]string{{LabelProcessPID: "3"}}})
	f.Find(3)
	f.Find(4)
	require.Empty(t, fs.reads)
}

func TestCacheIsBounded(t *testing.T) {
	fs := newFakeFS()
	const size = 8
	f := NewFinder(Options{FS: fs, CacheSize: size, Targets: []map[string]string{container(idA, "a")}})
	for pid := uint32(1); pid <= 100; pid++ {
		f.Find(pid)
		f.Find(1) // requested all the time: stays
	}
	c := f.cache.Load()
	require.Len(t, c.byPID, size)
	require.Len(t, c.slots, size)
	require.Equal(t, 1, fs.reads[1])

	for pid := uint32(1); pid <= 100; pid++ {
		f.Forget(pid)
	}
	require.Empty(t, c.byPID)
	require.Empty(t, c.slots)
}

// The ring and the map agree after any mixture of calls.
func TestCacheInvariants(t *testing.T) {
	c := newCache(5)
	random := rand.New(rand.NewPCG(1, 2))
	for range 10_000 {
		pid := random.Uint32N(12)
		switch random.IntN(3) {
		case 0:
			c.putAnswer(pid, &answer{containers: []string{string(rune('a' + pid))}})
		case 1:
			if a := c.getAnswer(pid); a != nil {
				require.Equal(t, []string{string(rune('a' + pid))}, a.containers)
			}
		case 2:
			c.remove(pid)
		}
		require.LessOrEqual(t, len(c.slots), 5)
		require.Len(t, c.byPID, len(c.slots))
		for i, s := range c.slots {
			require.Equal(t, i, s.index)
			require.Same(t, s, c.byPID[s.pid])
		}
	}
}

func TestFindDoesNotAllocate(t *testing.T) {
	fs := newFakeFS()
	fs.lines[100_000] = "1:cpu:/docker/" + idA
	f := NewFinder(Options{FS: fs, Targets: []map[string]string{container(idA, "a"), {LabelProcessPID: "7"}}})
	f.Find(100_000)
	require.Zero(t, testing.AllocsPerRun(100, func() { f.Find(100_000) }))
}

func TestConcurrentUse(t *testing.T) {
	fs := newFakeFS()
	for pid := uint32(0); pid < 50; pid += 2 {
		fs.lines[pid] = "1:cpu:/docker/" + idA
	}
	opts := Options{FS: fs, CacheSize: 16, Default: map[string]string{LabelServiceName: "host"},
		Targets: []map[string]string{container(idA, "a")}}
	f := NewFinder(opts)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for i := range uint32(2000) {
				pid := i % 50
				want := "host"
				if pid%2 == 0 {
					want = "a"
				}
				if got := service(f.Find(pid)); got != want {
					t.Errorf("process %d: got %s, want %s", pid, got, want)
				}
			}
		})
	}
	for i := range 200 {
		opts.CacheSize = 16 + i%2
		f.Update(opts)
		f.Forget(uint32(i % 50))
		f.Retry()
		f.Explain(uint32(i % 50))
		f.Targets()
	}
	wg.Wait()
}

func TestExplain(t *testing.T) {
	fs := newFakeFS()
	fs.lines[1] = "1:cpu:/docker/" + idA
	fs.lines[2] = "1:cpu:/docker/" + idB
	fs.lines[3] = "1:cpu:/"
	opts := Options{FS: fs, Targets: []map[string]string{
		{LabelDockerID: idA}, {LabelProcessPID: "4"},
	}}
	f := NewFinder(opts)
	for pid, want := range map[uint32]string{
		1: "__meta_docker_container_id names its container",
		2: "no target names its container: default target",
		3: "no container ID in its cgroup /: default target",
		4: "__process_pid__ is 4",
	} {
		e := f.Explain(pid)
		require.Equal(t, want, e.Reason)
		require.Same(t, f.Find(pid), e.Target)
	}
	require.Equal(t, idB, f.Explain(2).ContainerID)

	opts.TargetsOnly = true
	f.Update(opts)
	require.Equal(t, "no container ID in its cgroup /: not profiled (targets_only)", f.Explain(3).Reason)
}

func BenchmarkFind(b *testing.B) {
	fs := newFakeFS()
	f := NewFinder(Options{FS: fs, Targets: []map[string]string{container(idA, "a")}})
	for pid := range uint32(64) {
		fs.lines[pid] = "1:cpu:/docker/" + idA
		f.Find(pid)
	}
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pid := uint32(0); pb.Next(); pid++ {
			f.Find(pid % 64)
		}
	})
}

// TestNestedContainers has containers in containers, as in kind, CI runners and Docker in Docker: the inner container
// belongs to the outer one's target, unless it has its own target.
func TestNestedContainers(t *testing.T) {
	idC := "c" + idA[1:]
	fs := newFakeFS()
	fs.lines[10] = "1:cpu:/docker/" + idA + "/init"
	fs.lines[11] = "1:cpu:/docker/" + idA + "/docker/" + idB
	fs.lines[12] = "1:cpu:/docker/" + idA + "/kubelet/kubepods/podx/cri-containerd-" + idC + ".scope/docker/" + idB
	fs.lines[13] = "1:cpu:/docker/" + idB
	fs.lines[14] = "1:cpu:/docker/" + idA + "/machine.slice/libpod-conmon-" + idB + ".scope"
	opts := Options{FS: fs, TargetsOnly: true, Targets: []map[string]string{container(idA, "outer")}}
	f := NewFinder(opts)
	for pid, want := range map[uint32]string{10: "outer", 11: "outer", 12: "outer", 13: "(none)", 14: "outer"} {
		require.Equal(t, want, service(f.Find(pid)), pid)
		require.Equal(t, want, service(f.Explain(pid).Target), pid)
	}
	require.Equal(t, LabelContainerID+" names its outer container "+idA[:12], f.Explain(11).Reason)
	require.Equal(t, idB, f.Explain(11).ContainerID)

	opts.Targets = append(opts.Targets, container(idC, "middle"))
	f.Update(opts)
	require.Equal(t, "outer", service(f.Find(11)))
	require.Equal(t, "middle", service(f.Find(12)))
	opts.Targets = append(opts.Targets, container(idB, "inner"))
	f.Update(opts)
	require.Equal(t, "inner", service(f.Find(11)))
	require.Equal(t, "inner", service(f.Find(12)))

	// A runtime in the container starts in its own cgroup, and moves just before it executes the program.
	f.Inherit(10, 20)
	require.Equal(t, "outer", service(f.Find(20)))
	fs.lines[20] = fs.lines[11]
	f.Restarted(20)
	require.Equal(t, "inner", service(f.Find(20)))
	reads := fs.reads[20]
	f.Retry()
	f.Find(20)
	require.Equal(t, reads, fs.reads[20], "it does not move again")
}

// TestShortLivedChild has a child that is gone before its cgroup can be read, and
// a runtime that puts a child into a container before it starts a program there.
func TestShortLivedChild(t *testing.T) {
	fs := newFakeFS()
	fs.lines[10] = "1:cpu:/docker/" + idA
	fs.lines[20] = "1:cpu:/user.slice"
	f := NewFinder(Options{FS: fs, TargetsOnly: true,
		Targets: []map[string]string{container(idA, "a"), container(idB, "b")}})
	f.Inherit(10, 11)
	f.Restarted(11)
	require.Equal(t, "a", service(f.Find(11)))

	f.Inherit(20, 21)
	require.Equal(t, "(none)", service(f.Find(21)))
	fs.lines[21] = "1:cpu:/docker/" + idB
	f.Restarted(21)
	require.Equal(t, "b", service(f.Find(21)))
}
