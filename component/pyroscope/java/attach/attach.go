// Package attach sends commands to Java VMs of the kind HotSpot, by the VM's own attach mechanism: a socket in /tmp
// of the VM's root directory. The VM makes the socket when it gets SIGQUIT and finds a file that asks for it
// (OpenJDK, src/hotspot/os/posix/attachListener_posix.cpp). Without the file, or if the mechanism is off, a VM prints
// the stacks of all threads at SIGQUIT, and a process that does not catch the signal ends. Open sends it only where
// neither happens.
//
// File systems that do not answer make calls of this package hang. Its caller is a process of its own.
package attach

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/headwater/headwater/ebpf/host/procfs"
)

// Times that a VM has.
const (
	socketPatience  = 10 * time.Second // to make its socket
	commandPatience = 30 * time.Second // to execute a command
	pollInterval    = 20 * time.Millisecond
)

// maxAnswer bounds the answer to a command, in bytes.
const maxAnswer = 1 << 20

// VM is a Java VM that can execute commands.
type VM struct {
	pid      int
	inner    uint32 // PID in the VM's own namespace
	uid, gid int    // of the VM, effective
	root     int    // descriptor of its root directory
	tmp      int    // descriptor of /tmp there
}

// RefusedError says why a process executes no commands. The process has not been changed.
type RefusedError struct{ Reason string }

// Error implements error.
func (e *RefusedError) Error() string { return e.Reason }

func refuse(format string, args ...any) error { return &RefusedError{fmt.Sprintf(format, args...)} }

// Open prepares the VM of a process for commands. The error is a *RefusedError if the process does not take any. Close
// must be called.
func Open(pid int) (vm *VM, err error) {
	fd, err := unix.PidfdOpen(pid, 0) // first, so that no other process gets the signal
	if err != nil {
		return nil, fmt.Errorf("opening process %d: %w", pid, err)
	}
	defer unix.Close(fd)
	state, err := procfs.Default.Status(uint32(pid))
	if err != nil {
		return nil, err
	}
	if err := checkVM(pid); err != nil {
		return nil, err
	}
	vm = &VM{pid: pid, inner: state.Inner, uid: int(state.UID), gid: int(state.GID), root: -1, tmp: -1}
	defer func() {
		if err != nil {
			vm.Close()
		}
	}()
	vm.root, err = unix.Open(fmt.Sprintf("/proc/%d/root", pid), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("root directory of process %d: %w", pid, err)
	}
	if vm.tmp, err = vm.OpenDir("/tmp"); err != nil {
		return nil, err
	}
	if vm.hasSocket() {
		_ = unix.Unlinkat(vm.tmp, vm.trigger(), 0) // of an attempt that a slow VM has answered late
		return vm, nil
	}
	return vm, vm.makeSocket(fd, state)
}

// Close frees the resources of vm. The VM keeps its socket, as for every tool that attaches.
func (vm *VM) Close() {
	for _, fd := range []int{vm.root, vm.tmp} {
		if fd >= 0 {
			unix.Close(fd)
		}
	}
}

// UID returns the VM's effective user.
func (vm *VM) UID() int { return vm.uid }

// GID returns the VM's effective group.
func (vm *VM) GID() int { return vm.gid }

// OpenDir opens a directory in the VM's root directory. Its caller closes the descriptor.
func (vm *VM) OpenDir(name string) (fd int, err error) {
	how := &unix.OpenHow{Flags: unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS}
	if fd, err = unix.Openat2(vm.root, name, how); err != nil {
		return -1, refuse("%s of process %d: %v", name, vm.pid, err)
	}
	return fd, nil
}

func (vm *VM) socket() string  { return fmt.Sprintf(".java_pid%d", vm.inner) }
func (vm *VM) trigger() string { return fmt.Sprintf(".attach_pid%d", vm.inner) }

// hasSocket reports whether the VM's socket exists and belongs to the VM's user.
func (vm *VM) hasSocket() bool {
	var stat unix.Stat_t
	return unix.Fstatat(vm.tmp, vm.socket(), &stat, unix.AT_SYMLINK_NOFOLLOW) == nil &&
		stat.Mode&unix.S_IFMT == unix.S_IFSOCK && int(stat.Uid) == vm.uid
}

// makeSocket has the VM make its socket.
func (vm *VM) makeSocket(pidfd int, s procfs.Status) error {
	switch {
	case s.Caught&(1<<(unix.SIGQUIT-1)) == 0:
		return refuse("the VM does not handle SIGQUIT, as with -Xrs or while it starts")
	case strings.ContainsRune("TtZX", rune(s.State)):
		return refuse("the process is stopped or ends")
	}
	on, known := vm.takesCommands()
	if known && !on {
		return refuse("the VM has the attach mechanism off: -XX:+DisableAttachMechanism")
	}
	if !known {
		if at := optionOff(vm.pid); at != "" {
			return refuse("the VM has the attach mechanism off: %s", at)
		}
	}
	const flags = unix.O_CREAT | unix.O_EXCL | unix.O_WRONLY | unix.O_NOFOLLOW | unix.O_CLOEXEC
	fd, err := unix.Openat(vm.tmp, vm.trigger(), flags, 0o600)
	switch {
	case errors.Is(err, unix.EEXIST): // the VM has had the signal before, and is slow
	case err != nil:
		return refuse("creating /tmp/%s for process %d: %v", vm.trigger(), vm.pid, err)
	default:
		err = unix.Fchown(fd, vm.uid, vm.gid) // the VM looks at the owner
		unix.Close(fd)
		if err == nil {
			err = unix.PidfdSendSignal(pidfd, unix.SIGQUIT, nil, 0)
		}
		if err != nil {
			_ = unix.Unlinkat(vm.tmp, vm.trigger(), 0)
			return fmt.Errorf("attaching to process %d: %w", vm.pid, err)
		}
	}
	for end := time.Now().Add(socketPatience); time.Now().Before(end); time.Sleep(pollInterval) {
		if vm.hasSocket() {
			_ = unix.Unlinkat(vm.tmp, vm.trigger(), 0)
			return nil
		}
	}
	// The file stays: a VM that handles the signal without it prints the stacks of its threads.
	return refuse("the VM has not made its socket within %s", socketPatience)
}

// Do executes a command of jcmd, such as "JFR.check", and returns the output. The error contains the output if the
// command fails.
func (vm *VM) Do(command string) (output string, err error) {
	conn, err := vm.connect()
	if err != nil {
		return "", err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(commandPatience)); err != nil {
		return "", err
	}
	// Version of the protocol, command and three arguments.
	if _, err := conn.Write([]byte("1\x00jcmd\x00" + command + "\x00\x00\x00")); err != nil {
		return "", fmt.Errorf("sending a command to process %d: %w", vm.pid, err)
	}
	answer, err := io.ReadAll(io.LimitReader(conn, maxAnswer))
	if err != nil {
		return "", fmt.Errorf("answer of process %d: %w", vm.pid, err)
	}
	code, output, _ := strings.Cut(string(answer), "\n")
	output = strings.TrimSpace(output)
	if code != "0" {
		return "", fmt.Errorf("%s: the VM answers %q", commandName(command), strings.TrimSpace(code+" "+output))
	}
	return output, nil
}

func commandName(command string) string {
	name, _, _ := strings.Cut(command, " ")
	return name
}

// connect connects to the VM's socket as the VM's user, as JDK 8 demands.
func (vm *VM) connect() (*net.UnixConn, error) {
	defer assume(vm.uid, vm.gid)()
	address := fmt.Sprintf("/proc/self/fd/%d/%s", vm.tmp, vm.socket())
	conn, err := net.DialTimeout("unix", address, commandPatience)
	if err != nil {
		return nil, refuse("connecting to /tmp/%s of process %d: %v", vm.socket(), vm.pid, errors.Unwrap(err))
	}
	unixConn := conn.(*net.UnixConn)
	if peer, err := peerOf(unixConn); err != nil || peer != vm.pid {
		conn.Close()
		return nil, refuse("/tmp/%s belongs to process %d, not to %d", vm.socket(), peer, vm.pid)
	}
	return unixConn, nil
}

// peerOf returns the process at the other end.
func peerOf(conn *net.UnixConn) (pid int, err error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return 0, err
	}
	var cred *unix.Ucred
	e := raw.Control(func(fd uintptr) {
		cred, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	})
	if e != nil {
		return 0, e
	}
	if err != nil {
		return 0, err
	}
	return int(cred.Pid), nil
}

// assume gives this process another effective user and group, if it may. undo restores them.
func assume(uid, gid int) (undo func()) {
	if os.Geteuid() != 0 || uid == 0 && gid == 0 {
		return func() {}
	}
	if syscall.Setegid(gid) != nil {
		return func() {}
	}
	_ = syscall.Seteuid(uid)
	return func() {
		_ = syscall.Seteuid(0)
		_ = syscall.Setegid(0)
	}
}

// checkVM returns an error if no file of a process is HotSpot's library.
func checkVM(pid int) error {
	mappings, err := procfs.Default.Mappings(uint32(pid))
	if err != nil {
		return err
	}
	for _, m := range mappings {
		if filepath.Base(m.Path) == "libjvm.so" {
			return nil
		}
	}
	return refuse("process %d is no Java VM of the kind HotSpot", pid)
}

// optionOff returns where the options of a VM say that it takes no commands, or "".
func optionOff(pid int) string {
	const off = "+DisableAttachMechanism"
	dir := fmt.Sprintf("/proc/%d/", pid)
	command, err := os.ReadFile(dir + "cmdline")
	if err != nil {
		return err.Error()
	}
	for arg := range bytes.SplitSeq(command, []byte{0}) {
		name := string(arg)
		if strings.Contains(name, off) {
			return name
		}
		for _, prefix := range []string{"@", "-XX:Flags=", "-XX:VMOptionsFile="} {
			if file, ok := strings.CutPrefix(name, prefix); ok && fileContains(pid, file, off) {
				return name
			}
		}
	}
	environment, err := os.ReadFile(dir + "environ")
	if err != nil {
		return err.Error()
	}
	for variable := range bytes.SplitSeq(environment, []byte{0}) {
		name, value, _ := strings.Cut(string(variable), "=")
		switch name {
		case "JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS", "JDK_JAVA_OPTIONS":
			if strings.Contains(value, off) {
				return name
			}
		}
	}
	return ""
}

// fileContains reports whether a file of options of a process contains a text. A file that is gone or too large may.
func fileContains(pid int, name, text string) bool {
	const most = 1 << 20
	if !filepath.IsAbs(name) {
		dir, err := os.Readlink(fmt.Sprintf("/proc/%d/cwd", pid))
		if err != nil {
			return true
		}
		name = filepath.Join(dir, name)
	}
	f, err := procfs.Open(fmt.Sprintf("/proc/%d/root", pid), name)
	if err != nil {
		return true
	}
	defer f.Close()
	b, err := io.ReadAll(io.NewSectionReader(f, 0, most))
	return err != nil || len(b) == most || bytes.Contains(b, []byte(text))
}
