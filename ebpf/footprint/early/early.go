// Package early keeps small what the executable takes of memory, from before the packages of a program are initialized.
// It is for commands to import, for nothing else: it changes the whole process. It needs no right, and what the kernel
// cannot do stays as it was.
//
// Where a page of a file is touched for the first time, the kernel maps the 16 around it too, if it has them in its
// page cache. Of a large executable of which little runs, that is most of what is resident, and it takes several times
// as long as to map one. Since Linux 6.7 it can be turned off for a mapping, by a userfaultfd that waits for faults of
// which there are none: see should_fault_around in the kernel's mm/memory.c, and UFFD_FEATURE_WP_ASYNC in
// Documentation/admin-guide/mm/userfaultfd.rst.
//
// Go initializes a package as soon as all its imports are. So this one imports little: others, such as those of the
// Kubernetes client, touch most of the executable.
package early

import (
	"syscall"
	"unsafe"
)

// Err says why the kernel maps pages of the executable that nothing has touched; nil if it does not.
var Err = mapUsed(readOnlySegments())

// segment is a part of memory, from start to end.
type segment struct{ start, end uint64 }

// Of elf.h: programHeader is Elf64_Phdr.
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

// readOnlySegments returns where the executable's code and constants are.
func readOnlySegments() (segments []segment) {
	headers := programHeaders()
	var bias uint64 // of addresses in memory to those in the file
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

// programHeaders returns the executable's, from where the kernel says that they are in memory; none if it does not.
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

// Of linux/userfaultfd.h: apiRequest is struct uffdio_api, registerRequest is struct uffdio_register.
type (
	apiRequest      struct{ api, features, ioctls uint64 }
	registerRequest struct{ start, len, mode, ioctls uint64 }
)

const (
	userModeOnly    = 1 // asks for no right
	api             = 0xaa
	ioctlAPI        = 0xc018aa3f
	ioctlRegister   = 0xc020aa00
	featureWPAsync  = 1 << 15 // the kernel resolves faults by itself, and mappings may be of any file
	writeProtection = 1 << 1
)

// mapUsed makes the kernel map no pages there but those that are touched. It leaves a file descriptor open: closing it
// would end that.
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
