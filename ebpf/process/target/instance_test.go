package target

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headwater/headwater/ebpf/host/procfs"
)

// began returns a process that starts now, in ticks.
func began(t *testing.T, program uint64, parent uint32) procfs.Instance {
	t.Helper()
	age := procfs.Instance{}.Age()
	require.Positive(t, age, "since the host began")
	return procfs.Instance{Start: uint64(age / (time.Second / 100)), Program: program, Parent: parent}
}

// discovered returns a target in the form of discovery.process.
func discovered(pid uint32, i procfs.Instance, refresh time.Duration, service string) map[string]string {
	return map[string]string{
		LabelProcessPID: fmt.Sprint(pid), LabelProcessInstance: InstanceOf(i, refresh), LabelServiceName: service,
	}
}

// written returns a target in the form of a user's configuration.
func written(pid uint32, service string) map[string]string {
	return map[string]string{LabelProcessPID: fmt.Sprint(pid), LabelServiceName: service}
}

// host returns options with a default target.
func host(fs *fakeFS, targets ...map[string]string) Options {
	return Options{FS: fs, Default: map[string]string{LabelServiceName: "host"}, Targets: targets}
}

// TestPIDUsedAgain: a process ends and another process gets its PID, in all ways in which a Finder may see it.
func TestPIDUsedAgain(t *testing.T) {
	first, second := procfs.Instance{Start: 100, Program: 1}, procfs.Instance{Start: 900, Program: 2}
	targets := map[string]map[string]string{
		"discovered": discovered(10, first, time.Minute, "a"), "written": written(10, "a"),
	}
	ways := map[string]func(f *Finder, fs *fakeFS){
		"fork, exec":               func(f *Finder, _ *fakeFS) { f.Inherit(1, 10); f.Restarted(10) },
		"fork":                     func(f *Finder, _ *fakeFS) { f.Inherit(1, 10) },
		"end, fork":                func(f *Finder, _ *fakeFS) { f.Forget(10); f.Inherit(1, 10) },
		"end":                      func(f *Finder, _ *fakeFS) { f.Forget(10) },
		"nothing, until it is due": func(f *Finder, _ *fakeFS) { f.Retry() },
		"fork, gone before it is looked at": func(f *Finder, fs *fakeFS) {
			f.Inherit(1, 10)
			fs.ended[10] = true
		},
	}
	for kind, target := range targets {
		for name, happens := range ways {
			t.Run(kind+", "+name, func(t *testing.T) {
				fs := newFakeFS()
				fs.instances[1], fs.instances[10] = procfs.Instance{Start: 1, Program: 9}, first
				f := NewFinder(host(fs, target))
				require.Equal(t, "a", service(f.Find(10)))
				fs.instances[10] = second
				happens(f, fs)
				require.Equal(t, "host", service(f.Find(10)))
				f.Update(host(fs, target))
				require.Equal(t, "host", service(f.Find(10)), "after an update with the same target")
				f.Update(host(fs, target, written(11, "b")))
				require.Equal(t, "host", service(f.Find(10)), "after another update")
				delete(fs.ended, 10)
				f.Update(host(fs, discovered(10, second, time.Minute, "b")))
				require.Equal(t, "b", service(f.Find(10)), "it was found")
			})
		}
	}
}

// TestTargetOfAnEndedProcess has a target whose process ended before the target was added.
func TestTargetOfAnEndedProcess(t *testing.T) {
	fs := newFakeFS()
	fs.ended[10] = true
	f := NewFinder(host(fs, written(10, "a")))
	delete(fs.ended, 10)
	fs.instances[10] = procfs.Instance{Start: 900, Program: 2}
	require.Equal(t, "host", service(f.Find(10)))
	f.Update(host(fs, written(10, "a new one")))
	require.Equal(t, "a new one", service(f.Find(10)), "another target is of the process that is there now")
}

// TestEndedBeforeItWasLookedAt: samples of a process arrive after its end, and still match its target.
func TestEndedBeforeItWasLookedAt(t *testing.T) {
	fs := newFakeFS()
	fs.instances[10] = procfs.Instance{Start: 100, Program: 1}
	f := NewFinder(host(fs, discovered(10, fs.instances[10], time.Minute, "a"), written(10, "b"), written(11, "c")))
	fs.ended[10], fs.ended[11] = true, true
	require.Equal(t, "b", service(f.Find(10)))
	require.Equal(t, "c", service(f.Find(11)))
	f.Forget(10)
	require.Equal(t, "b", service(f.Find(10)))
}

// TestContainerOfAPIDUsedAgain: the known container belongs to one process only, whether or not its end was seen.
func TestContainerOfAPIDUsedAgain(t *testing.T) {
	for name, happens := range map[string]func(f *Finder){
		"nothing is seen": func(f *Finder) { f.Retry() },
		"end":             func(f *Finder) { f.Forget(10) },
		"fork":            func(f *Finder) { f.Inherit(1, 10) },
	} {
		fs := newFakeFS()
		fs.instances[10] = procfs.Instance{Start: 100, Program: 1}
		fs.lines[1], fs.lines[10] = "1:cpu:/user.slice", "1:cpu:/docker/"+idA
		f := NewFinder(host(fs, container(idA, "a")))
		require.Equal(t, "a", service(f.Find(10)))
		fs.instances[10] = procfs.Instance{Start: 900, Program: 1}
		fs.lines[10] = "1:cpu:/user.slice"
		happens(f)
		require.Equal(t, "host", service(f.Find(10)), name)
	}
}

// TestChildren follows the children of a discovered process: they belong to its target until they execute another
// program, or are discovered themselves.
func TestChildren(t *testing.T) {
	fs := newFakeFS()
	parent := procfs.Instance{Start: 100, Program: 1, Parent: 1}
	fs.instances[10] = parent
	opts := host(fs, discovered(10, parent, time.Minute, "postgres"))
	f := NewFinder(opts)
	f.Inherit(10, 20)
	require.Equal(t, "postgres", service(f.Find(20)), "gone before it is looked at")
	for _, pid := range []uint32{11, 12, 13} {
		fs.instances[pid] = began(t, 1, 10)
		f.Inherit(10, pid)
	}
	f.Inherit(11, 14) // a child of a child
	fs.instances[14] = began(t, 1, 11)
	for pid := uint32(11); pid <= 14; pid++ {
		require.Equal(t, "postgres", service(f.Find(pid)))
	}

	fs.instances[12] = began(t, 2, 10)
	f.Restarted(12)
	require.Equal(t, "host", service(f.Find(12)), "another program")
	fs.instances[13] = began(t, 3, 10)
	f.Retry()
	require.Equal(t, "host", service(f.Find(13)), "another program, which nobody has seen it execute")

	opts.Targets = append(opts.Targets, discovered(11, fs.instances[11], time.Minute, "autovacuum"))
	f.Update(opts)
	require.Equal(t, "autovacuum", service(f.Find(11)), "it was found")
	require.Equal(t, "postgres", service(f.Find(14)), "not found yet")
	require.Equal(t, "host", service(f.Find(12)))
	require.Same(t, f.Find(10), f.Find(14), "the parent's target of now")

	fs.ended[10] = true
	f.Update(host(fs))
	require.Equal(t, "host", service(f.Find(14)), "nothing is discovered any more")
}

// TestChildThatWasLeftOut has a child that a component knows but has no target for, as when a rule drops it.
func TestChildThatWasLeftOut(t *testing.T) {
	fs := newFakeFS()
	parent := procfs.Instance{Start: 100, Program: 1, Parent: 1}
	fs.instances[10], fs.instances[11] = parent, began(t, 1, 10)
	f := NewFinder(host(fs, discovered(10, parent, -patience, "a"))) // -patience: discovered at once
	f.Inherit(10, 11)
	require.Equal(t, "host", service(f.Find(11)))
	f.Inherit(11, 12)
	require.Equal(t, "host", service(f.Find(12)), "nor has its child")
	NewFinder(Options{Targets: []map[string]string{written(10, "a"), written(11, "b")}}).Inherit(10, 11) // without FS
}

// TestChildrenThatNobodySawBegin: a child runs the program of its parent, and is too new to be discovered.
func TestChildrenThatNobodySawBegin(t *testing.T) {
	fs := newFakeFS()
	parent := procfs.Instance{Start: 100, Program: 1, Parent: 1}
	old := parent
	old.Parent = 10
	fs.instances[1] = procfs.Instance{Start: 1, Program: 9}
	fs.instances[10], fs.instances[11], fs.instances[12] = parent, began(t, 1, 10), began(t, 1, 11)
	fs.instances[13], fs.instances[14], fs.instances[15] = began(t, 2, 10), old, began(t, 0, 10)
	f := NewFinder(host(fs, discovered(10, parent, time.Minute, "a")))
	for pid, want := range map[uint32]string{10: "a", 11: "a", 12: "a", 13: "host", 14: "host", 15: "host", 1: "host"} {
		require.Equal(t, want, service(f.Find(pid)), pid)
		require.Same(t, f.Find(pid), f.Explain(pid).Target)
	}
	require.Equal(t, "new child of process 10", f.Explain(12).Reason)
}

// TestExecEndsWhatWasDiscovered: discovered labels are about a program; a user's labels are about a process.
func TestExecEndsWhatWasDiscovered(t *testing.T) {
	for name, sees := range map[string]func(f *Finder){
		"exec": func(f *Finder) { f.Restarted(10) }, "not looked at before": func(*Finder) {},
		"not seen": func(f *Finder) { f.Find(10); f.Retry() },
	} {
		fs := newFakeFS()
		bash := procfs.Instance{Start: 100, Program: 1}
		fs.instances[10], fs.instances[11] = bash, bash
		opts := host(fs, discovered(10, bash, time.Minute, "bash"), written(11, "app"))
		f := NewFinder(opts)
		fs.instances[10] = procfs.Instance{Start: 100, Program: 2}
		fs.instances[11] = fs.instances[10]
		sees(f)
		f.Restarted(11)
		require.Equal(t, "host", service(f.Find(10)), name)
		require.Equal(t, "app", service(f.Find(11)), name)
		require.Contains(t, f.Explain(10).Reason, "or an earlier program of this process")
		opts.Targets[0] = discovered(10, fs.instances[10], time.Minute, "python3")
		f.Update(opts)
		require.Equal(t, "python3", service(f.Find(10)), name)
	}
	fs := newFakeFS()
	fs.instances[10] = procfs.Instance{Start: 100, Program: 1}
	f := NewFinder(host(fs, discovered(10, fs.instances[10], time.Minute, "bash")))
	f.Restarted(10)
	fs.ended[10] = true
	require.Equal(t, "host", service(f.Find(10)), "gone before it is looked at")
}

// TestProcessesOfChildren: the kernel must not filter out processes that inherit a target.
func TestProcessesOfChildren(t *testing.T) {
	fs := newFakeFS()
	require.NotNil(t, NewFinder(host(fs, written(10, "a"))).Processes())
	require.Nil(t, NewFinder(host(fs, discovered(10, procfs.Instance{Start: 1}, time.Minute, "a"))).Processes())
}

func TestParseInstance(t *testing.T) {
	i := procfs.Instance{Start: 77, Program: 0xabc}
	require.Equal(t, instance{Instance: i, refresh: time.Minute}, parseInstance(InstanceOf(i, time.Minute)))
	for _, text := range []string{"", "1", "1.2", "1.x/1s", "x.1/1s", "1.2/soon", "/"} {
		require.Zero(t, parseInstance(text), text)
	}
}
