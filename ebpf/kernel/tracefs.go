package kernel

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// pmuType returns the kernel's number of a type of perf events.
func pmuType(name string) (uint32, error) {
	n, err := readNumber(os.DirFS("/sys/bus/event_source/devices"), name+"/type")
	if errors.Is(err, fs.ErrNotExist) {
		return 0, fmt.Errorf("this kernel has no %ss: it is built without CONFIG_%s_EVENTS, or /sys is not mounted",
			name, strings.ToUpper(name))
	}
	return uint32(n), err
}

func readNumber(in fs.FS, name string) (uint64, error) {
	b, err := fs.ReadFile(in, name)
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseUint(strings.TrimSpace(string(b)), 10, 63)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", name, err)
	}
	return n, nil
}

// tracepointID returns the kernel's number of a tracepoint.
func tracepointID(group, name string) (uint64, error) {
	file := path.Join("events", group, name, "id")
	if !fs.ValidPath(file) || strings.ContainsAny(group+name, "/") {
		return 0, fmt.Errorf("%s:%s is no name of a tracepoint", group, name)
	}
	for _, folder := range []string{"/sys/kernel/tracing", "/sys/kernel/debug/tracing"} {
		if _, err := os.Stat(folder + "/events"); err == nil {
			return tracepointIn(group, name, func() (uint64, error) { return readNumber(os.DirFS(folder), file) })
		}
	}
	mounted, err := mountTracefs()
	if err != nil {
		return 0, fmt.Errorf("find a tracepoint: tracefs is not at /sys/kernel/tracing, and cannot be mounted: %w", err)
	}
	defer unix.Close(mounted)
	return tracepointIn(group, name, func() (uint64, error) { return numberAt(mounted, file) })
}

func tracepointIn(group, name string, read func() (uint64, error)) (uint64, error) {
	n, err := read()
	if errors.Is(err, fs.ErrNotExist) {
		return 0, fmt.Errorf("this kernel has no tracepoint %s:%s: /sys/kernel/tracing/events lists them", group, name)
	}
	return n, err
}

// mountTracefs mounts tracefs where no other process sees it, and returns its root. It needs Linux 5.2.
func mountTracefs() (fd int, err error) {
	system, err := unix.Fsopen("tracefs", unix.FSOPEN_CLOEXEC)
	if errors.Is(err, unix.ENODEV) {
		return -1, errors.New("this kernel has no tracepoints: it is built without CONFIG_TRACING")
	}
	if err != nil {
		return -1, err
	}
	defer unix.Close(system)
	if err := unix.FsconfigCreate(system); err != nil {
		return -1, err
	}
	return unix.Fsmount(system, unix.FSMOUNT_CLOEXEC, 0)
}

// numberAt reads a number from a file in an open folder.
func numberAt(folder int, name string) (uint64, error) {
	fd, err := unix.Openat(folder, name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	f := os.NewFile(uintptr(fd), name)
	defer f.Close()
	b, err := io.ReadAll(f)
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseUint(strings.TrimSpace(string(b)), 10, 63)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", name, err)
	}
	return n, nil
}
