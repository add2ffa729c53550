package procfs

import (
	"fmt"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// standIns are threads of processes whose first thread has ended before the others, by PID. Memory and files of such a
// process are to be had through another thread alone.
var standIns struct {
	byPID sync.Map // uint32: uint32
	count atomic.Int64
}

// maxStandIns bounds the processes that are remembered.
const maxStandIns = 1024

// thread returns the thread through which memory and files of a process are to be had: the first one, whose number is
// the PID, as long as it is there.
func (f FS) thread(pid uint32) uint32 {
	if standIns.count.Load() == 0 || f.root() != Default.root() {
		return pid
	}
	known, ok := standIns.byPID.Load(pid)
	if !ok {
		return pid
	}
	if tid := known.(uint32); f.hasThread(pid, tid) {
		return tid
	}
	return f.standIn(pid)
}

// hasThread reports whether a thread is of a process.
func (f FS) hasThread(pid, tid uint32) bool {
	return unix.Access(f.path(pid, fmt.Sprintf("/task/%d", tid)), unix.F_OK) == nil
}

// standIn looks for a thread that has not ended of a process whose first thread has, and remembers it. It returns the
// PID if there is none.
func (f FS) standIn(pid uint32) uint32 {
	if _, known := standIns.byPID.LoadAndDelete(pid); known {
		standIns.count.Add(-1)
	}
	if f.root() != Default.root() {
		return pid
	}
	if state, err := f.stat(pid); err != nil || len(state) == 0 || state[0] != "Z" {
		return pid
	}
	threads, err := f.Threads(pid)
	if err != nil {
		return pid
	}
	for _, tid := range threads {
		state, err := f.stat(tid)
		if err != nil || len(state) == 0 || state[0] == "Z" || state[0] == "X" || !f.hasThread(pid, tid) {
			continue
		}
		if standIns.count.Load() >= maxStandIns {
			standIns.byPID.Clear()
			standIns.count.Store(0)
		}
		if _, known := standIns.byPID.Swap(pid, tid); !known {
			standIns.count.Add(1)
		}
		return tid
	}
	return pid
}

// Leaderless reports whether a process is known to go on without its first thread. Nothing is reported when it ends.
func (f FS) Leaderless(pid uint32) bool { return f.thread(pid) != pid }
