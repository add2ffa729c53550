package trie

import (
	"os"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// room is memory for values without pointers that the garbage collector does not know. Of what is in the heap, it would
// let half as much garbage pile up before it collects, and it may have to collect for this to be there at all.
type room struct {
	pages   []byte // nil: there are none
	left    []byte // of them
	cleanup runtime.Cleanup
}

// minRoomBytes is what is worth pages of its own.
const minRoomBytes = 128 << 10

// newRoom returns room for that many bytes, which is given back when of is no more, if not sooner. A small one is in
// the heap.
func newRoom[T any](of *T, bytes int) room {
	if bytes < minRoomBytes {
		return room{left: make([]byte, bytes)}
	}
	pages, err := unix.Mmap(-1, 0, bytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil { // then in the heap
		return room{left: make([]byte, bytes)}
	}
	return room{pages: pages, left: pages, cleanup: runtime.AddCleanup(of, unmap, pages)}
}

func unmap(pages []byte) { unix.Munmap(pages) }

// release gives the room back. Nothing in it may be used any more.
func (r *room) release() {
	if r.pages != nil {
		r.cleanup.Stop()
		unmap(r.pages)
	}
	*r = room{}
}

// aligned is a multiple of the alignment of all types.
const aligned = 8

// bytesOf returns the bytes that n values take in a room.
func bytesOf[T any](n int) int {
	bytes := n * int(unsafe.Sizeof(*new(T)))
	return (bytes + aligned - 1) &^ (aligned - 1)
}

// take takes room for n values without pointers, which are zero.
func take[T any](r *room, n int) []T {
	bytes := bytesOf[T](n)
	values := unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(r.left))), n)
	r.left = r.left[bytes:]
	return values
}

// populate makes the pages of values in a room come at once: each that is missing when it is met takes two to three
// times as long. Before Linux 5.14 they come as they are met.
func populate[T any](r *room, values []T) {
	if r.pages == nil || len(values) == 0 {
		return
	}
	first := unsafe.Pointer(unsafe.SliceData(values))
	before := uintptr(first) % uintptr(os.Getpagesize())
	unix.Madvise(unsafe.Slice((*byte)(unsafe.Add(first, -int(before))), int(before)+bytesOf[T](len(values))),
		unix.MADV_POPULATE_WRITE)
}
