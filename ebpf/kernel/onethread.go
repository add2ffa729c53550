package kernel

import (
	"fmt"
	"io"
	"os"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// passedBy is the number of threads that a pass goes through in the time that it takes to create an iterator over one
// thread, which exists since Linux 6.1. A pass goes through all threads of the host, even if only one is read.
const passedBy = 40

// oneThread opens an iterator over one thread.
func (t *Threads) oneThread(tid uint32) (io.ReadCloser, error) {
	info := struct{ tid, pid, pidFD uint32 }{tid: tid} // union bpf_iter_link_info of linux/bpf.h
	linked := struct {
		program, target, attachType, flags uint32
		info                               unsafe.Pointer
		infoBytes, _                       uint32
	}{
		program: uint32(t.objects.ReadThreads.FD()), attachType: unix.BPF_TRACE_ITER,
		info: unsafe.Pointer(&info), infoBytes: uint32(unsafe.Sizeof(info)),
	}
	link, err := bpfCall(unix.BPF_LINK_CREATE, unsafe.Pointer(&linked), unsafe.Sizeof(linked))
	if err != nil {
		return nil, err
	}
	defer unix.Close(link)
	made := struct{ link, flags uint32 }{link: uint32(link)}
	file, err := bpfCall(unix.BPF_ITER_CREATE, unsafe.Pointer(&made), unsafe.Sizeof(made))
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(file), "bpf_iter"), nil
}

// bpfCall makes the system call bpf.
func bpfCall(command int, attribute unsafe.Pointer, size uintptr) (int, error) {
	fd, _, errno := unix.Syscall(unix.SYS_BPF, uintptr(command), uintptr(attribute), size)
	if errno != 0 {
		return -1, fmt.Errorf("bpf command %d: %w", command, errno)
	}
	return int(fd), nil
}

// readsSingle reports whether oneThread reads only the given thread. Kernels before 6.1 ignore its ID.
func (t *Threads) readsSingle() (bool, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := t.setFilter(filter{}); err != nil {
		return false, err
	}
	self, found := uint32(unix.Gettid()), 0
	err := t.readFile(func() (io.ReadCloser, error) { return t.oneThread(self) }, func(of *Thread) {
		if found++; of.TID != self {
			found++ // a thread with this ID in another namespace, or all threads
		}
	})
	return err == nil && found == 1, nil
}

// readEach reads threads one by one.
func (t *Threads) readEach(f filter, tids []uint32, use func(*Thread)) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := t.setFilter(f); err != nil {
		return err
	}
	for _, tid := range tids {
		if err := t.readFile(func() (io.ReadCloser, error) { return t.oneThread(tid) }, use); err != nil {
			return err
		}
	}
	return nil
}
