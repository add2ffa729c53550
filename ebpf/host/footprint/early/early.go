// Package early reduces the memory of the executable, from before the packages of a program are initialized. Only
// commands may import it, as it changes the whole process. It needs no privilege. Where the kernel does not support it,
// the process is unchanged.
//
// When a page of a file is touched for the first time, the kernel also maps the 16 pages around it, if they are in the
// page cache. If only a small part of a large executable runs, these pages are most of its resident memory, and mapping
// them takes several times as long as mapping one page. Since Linux 6.7 a userfaultfd on a mapping turns this off, even
// though there are no faults to handle: see should_fault_around in the kernel's mm/memory.c, and UFFD_FEATURE_WP_ASYNC
// in Documentation/admin-guide/mm/userfaultfd.rst.
//
// Go initializes a package as soon as all its imports are initialized. So this package has few imports: other packages,
// such as the Kubernetes client, touch most of the executable.
package early

import (
	"syscall"
	"unsafe"
)

// Err is the reason why the kernel also maps untouched pages of the executable; nil if it maps only touched pages.
var Err = mapUsed(readOnlySegments())

// segment is a range of memory, from start to end.
type segment struct{ start, end uint64 }

// programHeader is Elf64_Phdr of elf.h.
type programHeader struct {
	kind, flags                         uint32
	offset, vaddr, paddr, filesz, memsz uint64
	align                               uint64
}

const (
	kindLoad, kindHeaders = 1, 6 // PT_LOAD, PT_PHDR
	writable              = 2    // PF_W
	auxHeaders, auxNumber = 3, 5 // AT_PHDR, AT_PHNUM
)

// readOnlySegments returns the segments of the executable's code and constants.
func readOnlySegments() (segments []segment) {
	headers := programHeaders()
	var bias uint64 // difference between addresses in memory and in the file
	for i := range headers {
		if headers[i].kind == kindHeaders {
			bias = uint64(uintptr(unsafe.Pointer(&headers[0]))) - headers[i].vaddr
		}
	}
	page := uint64(syscall.Getpagesize())
	for _, h := range headers {
		if h.kind == kindLoad && h.flags&writable == 0 {
			start, end := bias+h.vaddr, bias+h.vaddr+h.filesz
			segments = append(segments, segment{start &^ (page - 1), (end + page - 1) &^ (page - 1)})
		}
	}
	return segments
}

// programHeaders returns the executable's program headers in memory, at the address from the auxiliary vector, or nil
// if the vector does not have the address.
func programHeaders() []programHeader {
	file, err := syscall.Open("/proc/self/auxv", syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	defer syscall.Close(file)
	var aux [64]struct{ key, value uint64 }
	if _, err := syscall.Read(file, unsafe.Slice((*byte)(unsafe.Pointer(&aux)), unsafe.Sizeof(aux))); err != nil {
		return nil
	}
	var first *programHeader
	var number uint64
	for _, a := range aux {
		switch a.key {
		case auxHeaders:
			first = *(**programHeader)(unsafe.Pointer(&a.value))
		case auxNumber:
			number = a.value
		}
	}
	if first == nil {
		return nil
	}
	return unsafe.Slice(first, number)
}

// apiRequest is struct uffdio_api, and registerRequest struct uffdio_register, of linux/userfaultfd.h.
type (
	apiRequest      struct{ api, features, ioctls uint64 }
	registerRequest struct{ start, len, mode, ioctls uint64 }
)

const (
	userModeOnly    = 1 // needs no privilege
	api             = 0xaa
	ioctlAPI        = 0xc018aa3f
	ioctlRegister   = 0xc020aa00
	featureWPAsync  = 1 << 15 // the kernel resolves faults itself, and allows mappings of any file
	writeProtection = 1 << 1
)

// mapUsed makes the kernel map only touched pages in the segments. It leaves a file descriptor open, as closing it
// would undo this.
func mapUsed(segments []segment) error {
	if len(segments) == 0 {
		return syscall.ENOEXEC
	}
	fd, _, errno := syscall.Syscall(sysUserfaultfd, syscall.O_CLOEXEC|userModeOnly, 0, 0)
	if errno != 0 {
		return errno
	}
	err := control(fd, ioctlAPI, unsafe.Pointer(&apiRequest{api: api, features: featureWPAsync}))
	for _, s := range segments {
		if err == nil {
			err = control(fd, ioctlRegister,
				unsafe.Pointer(&registerRequest{start: s.start, len: s.end - s.start, mode: writeProtection}))
		}
	}
	if err != nil {
		syscall.Close(int(fd))
	}
	return err
}

func control(fd, request uintptr, argument unsafe.Pointer) error {
	if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, fd, request, uintptr(argument)); errno != 0 {
		return errno
	}
	return nil
}
