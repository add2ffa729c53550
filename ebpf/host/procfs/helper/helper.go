// Package helper makes system calls that may never return in a separate process.
//
// A thread that waits for the server of a FUSE file system, after the server has taken the request, cannot be ended by
// any signal, and a process with such a thread does not end either. So the code that opens and reads files whose server
// may not answer, and memory that may be mapped from such files, runs in a helper: this program, started again under
// another name. The helper ends with the process that started it, or it remains until the server answers.
//
// A Channel leads to one thread of the helper. Its caller waits; concurrent callers use different channels.
package helper

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Name is the start of the helper's command line.
const Name = "headwater-files"

const (
	maxMessage = 128 << 10 // bytes of a request or an answer
	maxIdle    = 4         // idle channels that are kept
	startAgain = 10 * time.Second
	settled    = time.Second
	inherited  = 3 // the descriptor through which the helper gets channels
)

// MaxReply is the maximum size of an answer in bytes.
const MaxReply = maxMessage

// ErrNone says that there is no helper: it could not be started, or it has ended.
var ErrNone = errors.New("no process to read files that may hang")

// helper is the one helper process.
var helper struct {
	mu      sync.Mutex
	control int // socket; 0 if the helper does not run
	pid     int
	refused error     // why the last start failed; nil if it succeeded
	when    time.Time // time of the last start
	idle    []*Channel
	serving map[int]*Channel // channels that wait for an answer, by thread of this process
}

// Channel leads to a thread of the helper. It is used by one goroutine at a time.
type Channel struct {
	fd     int
	pid    int // of the helper
	thread int // of the helper
	broken bool
}

// Take returns a channel. The error is ErrNone.
func Take() (*Channel, error) {
	helper.mu.Lock()
	if last := len(helper.idle) - 1; last >= 0 {
		c := helper.idle[last]
		helper.idle = helper.idle[:last]
		helper.mu.Unlock()
		return c, nil
	}
	defer helper.mu.Unlock()
	c, err := openChannel()
	if err == nil {
		return c, nil
	}
	stopHelper() // it may have been killed
	if c, err = openChannel(); err == nil {
		return c, nil
	}
	return nil, fmt.Errorf("%w: %w", ErrNone, err)
}

// Put gives a channel back for further use.
func (c *Channel) Put() {
	helper.mu.Lock()
	keep := !c.broken && c.pid == helper.pid && len(helper.idle) < maxIdle
	if keep {
		helper.idle = append(helper.idle, c)
	}
	helper.mu.Unlock()
	if !keep {
		c.Close()
	}
}

// Close ends a channel that is not given back.
func (c *Channel) Close() { unix.Close(c.fd) }

// Call sends a request and waits for the answer, which it writes to reply. If a descriptor comes with the answer, it
// belongs to the caller; fd is -1 if there is none. The error is ErrNone.
func (c *Channel) Call(request, reply []byte) (n, fd int, err error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	thread := unix.Gettid()
	c.waitForThread(thread, true)
	defer c.waitForThread(thread, false)
	if err := sendMessage(c.fd, request, -1); err != nil {
		c.broken = true
		return 0, -1, fmt.Errorf("%w: %w", ErrNone, err)
	}
	if n, fd, err = receive(c.fd, reply); err != nil {
		c.broken = true
		return 0, -1, fmt.Errorf("%w: %w", ErrNone, err)
	}
	return n, fd, nil
}

func (c *Channel) waitForThread(thread int, waits bool) {
	helper.mu.Lock()
	defer helper.mu.Unlock()
	if waits {
		if helper.serving == nil {
			helper.serving = map[int]*Channel{}
		}
		helper.serving[thread] = c
	} else {
		delete(helper.serving, thread)
	}
}

// Serving returns the process and thread of the helper that a thread of this process waits for, or 0 if it does not
// wait.
func Serving(thread int) (pid, tid int) {
	helper.mu.Lock()
	defer helper.mu.Unlock()
	if c := helper.serving[thread]; c != nil {
		return c.pid, c.thread
	}
	return 0, 0
}

// PID returns the ID of the helper's process, or 0 if there is none.
func PID() int {
	helper.mu.Lock()
	defer helper.mu.Unlock()
	return helper.pid
}

// openChannel opens a channel, and starts the helper if it does not run. The caller holds the mutex.
func openChannel() (*Channel, error) {
	if helper.control == 0 {
		if err := start(); err != nil {
			return nil, err
		}
	}
	ours, theirs, err := socketPair()
	if err != nil {
		return nil, err
	}
	err = sendMessage(helper.control, []byte{0}, theirs)
	unix.Close(theirs)
	var thread [4]byte
	if err == nil {
		_, _, err = receive(ours, thread[:])
	}
	if err != nil {
		unix.Close(ours)
		return nil, err
	}
	return &Channel{fd: ours, pid: helper.pid, thread: int(thread[0]) | int(thread[1])<<8 | int(thread[2])<<16 |
		int(thread[3])<<24}, nil
}

// start starts the helper. The caller holds the mutex.
func start() error {
	if helper.refused != nil && time.Since(helper.when) < startAgain {
		return helper.refused
	}
	ours, theirs, err := socketPair()
	if err != nil {
		return err
	}
	defer unix.Close(theirs)
	nothing, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		unix.Close(ours)
		return err
	}
	defer nothing.Close()
	// The helper must not hold our outputs, because their readers wait for their end.
	p, err := syscall.ForkExec("/proc/self/exe", []string{Name}, &syscall.ProcAttr{
		Dir:   "/",
		Env:   []string{"GOMAXPROCS=2"},
		Files: []uintptr{nothing.Fd(), nothing.Fd(), nothing.Fd(), uintptr(theirs)},
		Sys:   &syscall.SysProcAttr{Setsid: true}, // no key of a terminal ends it before this process
	})
	helper.refused, helper.when = err, time.Now()
	if err != nil {
		unix.Close(ours)
		return err
	}
	helper.control, helper.pid = ours, p
	go func() {
		for {
			if _, err := syscall.Wait4(p, nil, 0, nil); err != syscall.EINTR {
				return
			}
		}
	}()
	return nil
}

// stopHelper lets the helper end. The caller holds the mutex.
func stopHelper() {
	if helper.control == 0 {
		return
	}
	unix.Close(helper.control)
	for _, c := range helper.idle {
		unix.Close(c.fd)
	}
	helper.control, helper.pid, helper.idle = 0, 0, nil
}

// Handler answers the requests of a channel.
type Handler interface {
	// Answer returns the answer to a request, and a descriptor to pass with it, or -1. The caller closes the
	// descriptor.
	Answer(request []byte) (reply []byte, fd int)
	// Close ends the channel.
	Close()
}

// Serve makes this process the helper, if it was started as the helper, and does not return then. Call it when packages
// are initialized, before the program's main function. It calls started shortly after it has started to serve.
func Serve(handler func() Handler, started func()) {
	if len(os.Args) != 1 || os.Args[0] != Name {
		return
	}
	signal.Ignore(unix.SIGINT, unix.SIGTERM, unix.SIGHUP) // the helper ends with the process that has started it
	time.AfterFunc(settled, started)
	buf := make([]byte, 1)
	for {
		n, fd, err := receive(inherited, buf)
		if err != nil || n == 0 {
			os.Exit(0)
		}
		if fd >= 0 {
			go serve(fd, handler())
		}
	}
}

// serve answers the requests of a channel until the channel is closed.
func serve(fd int, h Handler) {
	runtime.LockOSThread() // the thread ends with the goroutine
	defer unix.Close(fd)
	defer h.Close()
	thread := unix.Gettid()
	if sendMessage(fd, []byte{byte(thread), byte(thread >> 8), byte(thread >> 16), byte(thread >> 24)}, -1) != nil {
		return
	}
	request := make([]byte, maxMessage)
	for {
		n, passed, err := receive(fd, request)
		if passed >= 0 {
			unix.Close(passed)
		}
		if err != nil {
			return
		}
		reply, pass := h.Answer(request[:n])
		err = sendMessage(fd, reply, pass)
		if pass >= 0 {
			unix.Close(pass)
		}
		if err != nil {
			return
		}
	}
}

func socketPair() (a, b int, err error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, 0, os.NewSyscallError("socketpair", err)
	}
	for _, fd := range pair {
		_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUFFORCE, 2*maxMessage) // the default is also enough
	}
	return pair[0], pair[1], nil
}

// sendMessage sends a message, with a descriptor if that is not negative.
func sendMessage(fd int, b []byte, pass int) error {
	var rights []byte
	if pass >= 0 {
		rights = unix.UnixRights(pass)
	}
	for {
		err := unix.Sendmsg(fd, b, rights, nil, unix.MSG_NOSIGNAL)
		if err != unix.EINTR {
			return os.NewSyscallError("sendmsg", err)
		}
	}
}

// receive receives a message, and the descriptor that comes with it, or -1.
func receive(fd int, b []byte) (n, passed int, err error) {
	rights := make([]byte, unix.CmsgSpace(4))
	var length int
	for {
		n, length, _, _, err = unix.Recvmsg(fd, b, rights, unix.MSG_CMSG_CLOEXEC)
		if err != unix.EINTR {
			break
		}
	}
	if err != nil {
		return 0, -1, os.NewSyscallError("recvmsg", err)
	}
	if n == 0 { // no message is empty
		return 0, -1, unix.ECONNRESET
	}
	messages, err := unix.ParseSocketControlMessage(rights[:length])
	if err != nil || len(messages) == 0 {
		return n, -1, nil
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil || len(fds) == 0 {
		return n, -1, nil
	}
	return n, slices.Min(fds), nil
}
