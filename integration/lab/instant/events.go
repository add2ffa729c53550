package main

import (
	"errors"
	"log"
	"net"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/headwater/headwater/integration/testkit/walks"
)

// Bits of perf_event_attr without a name in package unix, see linux/perf_event.h.
const (
	inheritThread = 1 << 35 // by threads, not by child processes: those register themselves
	removeOnExec  = 1 << 36 // the program after execve has no handler yet
	sigtrap       = 1 << 37
)

// eventOf describes the event for a process with one thread: a clock that counts in user mode, and signals the thread
// in which it counts. It needs Linux 5.13.
func eventOf(rate int) *unix.PerfEventAttr {
	attr := walks.ClockOf(rate)
	attr.Bits |= unix.PerfBitInherit | inheritThread | removeOnExec | sigtrap
	return attr
}

// listener opens an event for each process that requests one.
type listener struct {
	path   string
	open   func(pid int) (event int, err error)
	socket *net.UnixListener
	served sync.WaitGroup
	once   sync.Once
}

func listen(dir string, open func(pid int) (event int, err error)) (*listener, error) {
	path := filepath.Join(dir, "socket")
	socket, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, err
	}
	socket.SetUnlinkOnClose(false) // surviving processes still use its name
	if err := os.Chmod(path, 0o777); err != nil {
		return nil, errors.Join(err, socket.Close())
	}
	l := &listener{path: path, open: open, socket: socket}
	l.served.Add(1)
	go l.serve()
	return l, nil
}

// serve keeps the event of each process open until it ends or executes another program.
func (l *listener) serve() {
	defer l.served.Done()
	events := map[int]int{} // by PID
	defer func() {
		for _, event := range events {
			unix.Close(event)
		}
	}()
	for n := 0; ; n++ {
		c, err := l.socket.AcceptUnix()
		if err != nil {
			return // closed
		}
		if pid, err := peerPID(c); err != nil {
			log.Printf("instant: who asks? %v", err)
		} else {
			if event, ok := events[pid]; ok {
				unix.Close(event)
				delete(events, pid)
			}
			event, err := l.open(pid)
			if err == nil {
				events[pid] = event
			} else if !errors.Is(err, unix.ESRCH) {
				log.Printf("instant: process %d: %v", pid, err)
			}
		}
		c.Write([]byte{1}) // the process may no longer exist
		c.Close()
		if n%100 == 0 {
			closeEnded(events)
		}
	}
}

// closeEnded closes the events of processes that have ended.
func closeEnded(events map[int]int) {
	for pid, event := range events {
		if unix.Kill(pid, 0) == unix.ESRCH {
			unix.Close(event)
			delete(events, pid)
		}
	}
}

// peerPID returns the PID at the other end of a connection.
func peerPID(c *net.UnixConn) (pid int, err error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return 0, err
	}
	var credentials *unix.Ucred
	var failed error
	err = raw.Control(func(fd uintptr) {
		credentials, failed = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	})
	if err = errors.Join(err, failed); err != nil {
		return 0, err
	}
	return int(credentials.Pid), nil
}

// close ends all events.
func (l *listener) close() {
	l.once.Do(func() {
		l.socket.Close()
		l.served.Wait()
	})
}
