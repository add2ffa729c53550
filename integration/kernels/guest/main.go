// Command guest is the first and only process of a test machine: it mounts the file systems that a BPF test needs, runs
// /test with the arguments in /arguments (one per line), prints its exit code and turns the machine off.
package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

func main() {
	for _, m := range []struct{ kind, on string }{
		{"proc", "/proc"}, {"sysfs", "/sys"}, {"devtmpfs", "/dev"}, {"tmpfs", "/tmp"},
		{"tracefs", "/sys/kernel/tracing"}, {"bpf", "/sys/fs/bpf"}, {"cgroup2", "/sys/fs/cgroup"},
	} {
		_ = os.MkdirAll(m.on, 0o755) // Mount reports the error
		if err := syscall.Mount(m.kind, m.on, m.kind, 0, ""); err != nil {
			fmt.Printf("guest: mount %s: %v\n", m.on, err)
		}
	}
	if err := startLoopback(); err != nil {
		fmt.Println("guest: loopback:", err)
	}
	fmt.Printf("\nguest: exit %d\n", runTests())
	syscall.Sync()
	// qemu runs with -no-reboot: a restart ends it.
	err := syscall.Reboot(syscall.LINUX_REBOOT_CMD_RESTART)
	fmt.Println("guest: restart:", err)
}

// startLoopback lets programs reach each other at 127.0.0.1.
func startLoopback() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	request, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	request.SetUint16(unix.IFF_UP)
	return unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, request)
}

// runTests runs the test and returns its exit code, 125 if it could not run.
func runTests() int {
	arguments, err := os.ReadFile("/arguments")
	if err != nil {
		fmt.Println("guest:", err)
		return 125
	}
	fmt.Println("guest: begin")
	test := exec.Command("/test", strings.Split(strings.TrimSpace(string(arguments)), "\n")...)
	test.Env = []string{"PATH=/", "HOME=/tmp", "REQUIRE_KERNEL=1", "HEADWATER_GUEST=1"}
	test.Stdout, test.Stderr = os.Stdout, os.Stderr
	err = test.Run()
	var exit *exec.ExitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &exit):
		return exit.ExitCode()
	default:
		fmt.Println("guest:", err)
		return 125
	}
}
