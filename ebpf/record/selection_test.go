package record

import (
	"fmt"
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headwater/headwater/ebpf/host/procfs"
	"github.com/headwater/headwater/ebpf/kernel"
)

// TestNoProcess checks that a process that does not exist, and a thread in place of a process, are refused.
func TestNoProcess(t *testing.T) {
	const none = 1<<32 - 1
	_, err := newSelection(Selection{PIDs: []uint32{none}}, procfs.Default)
	require.EqualError(t, err, "there is no process 4294967295")
	_, err = newSelection(Selection{TIDs: []uint32{none}}, procfs.Default)
	require.EqualError(t, err, "there is no thread 4294967295")

	self := uint32(os.Getpid())
	threads, err := procfs.Default.Threads(self)
	require.NoError(t, err)
	require.Greater(t, len(threads), 1)
	_, err = newSelection(Selection{PIDs: threads[1:2]}, procfs.Default)
	require.ErrorContains(t, err, "is a thread of process")
	s, err := newSelection(Selection{TIDs: threads[1:2]}, procfs.Default)
	require.NoError(t, err)
	require.True(t, s.hasProcess(self))
	require.True(t, s.hasSample(&kernel.Sample{PID: self, TID: threads[1]}))
	require.False(t, s.hasSample(&kernel.Sample{PID: self, TID: threads[0]}))
}

// TestFamily checks that a process started by a selected process is selected, until its PID belongs to another process.
func TestFamily(t *testing.T) {
	self := uint32(os.Getpid())
	s, err := newSelection(Selection{PIDs: []uint32{self}}, procfs.Default)
	require.NoError(t, err)
	fork := func(parent, pid uint32) { s.observe(&kernel.Record{Kind: kernel.RecordFork, Parent: parent, PID: pid}) }
	const child, grandchild, other = 1 << 30, 1<<30 + 1, 1<<30 + 2
	require.False(t, s.hasProcess(child))
	fork(self, child)
	require.True(t, s.changed(s.asked))
	require.False(t, s.changed(s.asked))
	fork(child, grandchild)
	fork(1, other)
	require.True(t, s.hasProcess(child))
	require.True(t, s.hasProcess(grandchild))
	require.False(t, s.hasProcess(other))
	fork(other, child)
	require.False(t, s.hasProcess(child))
	require.Empty(t, s.goneReason())
}

// TestGone checks that a recording of processes ends when all of them have ended.
func TestGone(t *testing.T) {
	cmd := exec.Command("sleep", "60")
	require.NoError(t, cmd.Start())
	s, err := newSelection(Selection{PIDs: []uint32{uint32(cmd.Process.Pid)}}, procfs.Default)
	require.NoError(t, err)
	require.Regexp(t, `^process \d+ \(.+\)$`, s.String())
	require.Empty(t, s.goneReason())
	require.NoError(t, cmd.Process.Kill())
	require.Error(t, cmd.Wait())
	require.Regexp(t, `^process \d+ has ended$`, s.goneReason())
}

// TestCPUs checks that samples of other CPUs are left out.
func TestCPUs(t *testing.T) {
	s, err := newSelection(Selection{CPUs: []uint32{1, 3}}, procfs.Default)
	require.NoError(t, err)
	require.True(t, s.hasProcess(1))
	require.True(t, s.hasSample(&kernel.Sample{CPU: 3}))
	require.False(t, s.hasSample(&kernel.Sample{CPU: 2}))
	require.Equal(t, "this host, CPU 1, 3", s.String())
}

// TestCommandBegins checks that samples from before a command's exec do not count.
func TestCommandBegins(t *testing.T) {
	const pid, child = 1 << 30, 1<<30 + 1
	s, err := newSelection(Selection{Command: true}, procfs.Default)
	require.NoError(t, err)
	s.add(pid)
	s.since[pid] = notBegun
	at := func(pid uint32, time uint64) bool { return s.hasSample(&kernel.Sample{PID: pid, Time: time}) }
	require.True(t, s.hasProcess(pid))
	require.False(t, at(pid, 100))
	s.observe(&kernel.Record{Kind: kernel.RecordFork, Parent: 1, PID: pid, Time: 40}) // the fork of Start itself
	require.True(t, s.hasProcess(pid))
	require.False(t, at(pid, 100))
	s.observe(&kernel.Record{Kind: kernel.RecordExec, PID: pid, Time: 50})
	require.False(t, at(pid, 49))
	require.True(t, at(pid, 50))
	s.observe(&kernel.Record{Kind: kernel.RecordExec, PID: pid, Time: 80}) // the exec of a shell
	require.True(t, at(pid, 60))
	s.observe(&kernel.Record{Kind: kernel.RecordFork, Parent: pid, PID: child, Time: 60})
	require.True(t, s.hasProcess(child))
	require.True(t, at(child, 61))
}

func TestFitsCgroup(t *testing.T) {
	const id = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	lines := []string{"1:name=systemd:/", "0::/system.slice/docker-" + id + ".scope"}
	for _, fitting := range []Selection{
		{}, {Cgroup: "/"}, {Cgroup: "/system.slice"}, {Cgroup: "system.slice/"},
		{Unit: "system.slice"}, {Container: id}, {Container: id[:8]}, {Unit: "docker-" + id + ".scope", Container: id},
	} {
		require.True(t, fitting.fitsCgroup(lines), "%+v", fitting)
	}
	for _, other := range []Selection{
		{Cgroup: "/system"}, {Cgroup: "/user.slice"}, {Unit: "system"}, {Container: id[1:]},
		{Unit: "system.slice", Container: "ff"},
	} {
		require.False(t, other.fitsCgroup(lines), "%+v", other)
	}
	around := "f" + id[1:]
	inner := []string{"0::/docker/" + around + "/docker/" + id}
	require.True(t, (&Selection{Container: around}).fitsCgroup(inner), "a container in a container")
	require.True(t, (&Selection{Container: id[:12]}).fitsCgroup(inner))
	service := []string{"0::/system.slice/ssh.service"}
	require.True(t, (&Selection{Unit: "ssh"}).fitsCgroup(service))
	require.True(t, (&Selection{Unit: "ssh.service"}).fitsCgroup(service))
	require.False(t, (&Selection{Container: id}).fitsCgroup(service))
}

// TestChildren starts a shell with a child and a grandchild before they are selected.
func TestChildren(t *testing.T) {
	cmd := exec.Command("bash", "-c", "sleep 1000 & a=$!; (sleep 1001 & echo $a $BASHPID $!; read -r line <&3) & wait")
	never, end, err := os.Pipe()
	require.NoError(t, err)
	defer end.Close()
	defer never.Close()
	cmd.ExtraFiles = []*os.File{never} // 3
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	pids := []uint32{uint32(cmd.Process.Pid), 0, 0, 0}
	_, err = fmt.Fscan(out, &pids[1], &pids[2], &pids[3])
	require.NoError(t, err)
	defer func() {
		for _, pid := range pids {
			p, err := os.FindProcess(int(pid))
			require.NoError(t, err)
			_ = p.Kill()
		}
		_ = cmd.Wait()
	}()
	s, err := newSelection(Selection{PIDs: pids[:1]}, procfs.Default)
	require.NoError(t, err)
	require.NoError(t, s.findChildren())
	var left []uint32
	for _, p := range s.leftOut {
		left = append(left, p.PID)
		require.NotEmpty(t, p.Name)
		require.False(t, s.hasProcess(p.PID))
	}
	require.ElementsMatch(t, pids[1:], left)

	s, err = newSelection(Selection{PIDs: pids[:1], Children: true}, procfs.Default)
	require.NoError(t, err)
	require.NoError(t, s.findChildren())
	require.Empty(t, s.leftOut)
	for _, pid := range pids {
		require.True(t, s.hasProcess(pid))
	}
	require.False(t, s.hasProcess(uint32(os.Getpid())))

	s, err = newSelection(Selection{PIDs: pids[3:]}, procfs.Default)
	require.NoError(t, err)
	require.NoError(t, s.findChildren())
	require.Empty(t, s.leftOut, "it has none")
}

// TestNumberUsedAgain checks that a process that gets the PID of a selected process is not selected, and that the
// recording ends.
func TestNumberUsedAgain(t *testing.T) {
	self := uint32(os.Getpid())
	s, err := newSelection(Selection{PIDs: []uint32{self}}, procfs.Default)
	require.NoError(t, err)
	require.True(t, s.hasProcess(self))
	require.Empty(t, s.goneReason())
	s.observe(&kernel.Record{Kind: kernel.RecordFork, Parent: 1, PID: self})
	require.False(t, s.hasProcess(self))
	require.Contains(t, s.goneReason(), "has ended")
}
