package procfs

import (
	"fmt"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// standIns are threads of processes whose first thread has ended before other threads, by PID. The memory and files of
// such a process are only accessible through another thread.
var standIns struct {
	byPID sync.Map // uint32: uint32
	count atomic.Int64
}

// maxStandIns bounds the remembered processes.
const maxStandIns = 1024

// thread returns the thread through which the memory and files of a process are accessible. That is the first thread,
// whose number is the PID, while it exists.
func (f FS) thread(pid uint32) uint32 {
	if standIns.count.Load() == 0 || f.rootOrDefault() != Default.rootOrDefault() {
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

// hasThread reports whether a thread belongs to a process.
func (f FS) hasThread(pid, tid uint32) bool {
	return unix.Access(f.pathOf(pid, fmt.Sprintf("/task/%d", tid)), unix.F_OK) == nil
}

// standIn looks for a thread that has not ended in a process whose first thread has ended, and remembers it. It returns
// the PID if there is none.
func (f FS) standIn(pid uint32) uint32 {
	if _, known := standIns.byPID.LoadAndDelete(pid); known {
		standIns.count.Add(-1)
	}
	if f.rootOrDefault() != Default.rootOrDefault() {
		return pid
	}
	if state, err := f.statFields(pid); err != nil || len(state) == 0 || state[0] != "Z" {
		return pid
	}
	threads, err := f.Threads(pid)
	if err != nil {
		return pid
	}
	for _, tid := range threads {
		state, err := f.statFields(tid)
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

// Leaderless reports whether a process is known to continue without its first thread. The kernel does not report the
// end of such a process.
func (f FS) Leaderless(pid uint32) bool { return f.thread(pid) != pid }
