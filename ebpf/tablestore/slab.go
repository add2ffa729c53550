package tablestore

import (
	"errors"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	// chunkBytes is the unit in which slabs are mapped. The kernel maps all of it at
	// once, so all of it counts as memory of this process, a second time.
	chunkBytes = 32 << 10
	chunkWords = chunkBytes / 8
	// maxChunks is how many are mapped at a time: 4 MB. To map another one in place of an old one takes
	// microseconds, and in some virtual machines, where other CPUs are asked to forget the old one, a hundred.
	maxChunks = 128
)

// slab is one Slab, with a place in this process's addresses where chunks of it are
// mapped when they are needed.
type slab struct {
	words []uint64
	m     Slab // nil in tests: words are memory as any other

	mapped, used uint64 // a bit for each chunk; used: since the clock's hand last came by
}

// Slab is SlabWords words of memory that BPF programs read, a BPF array map of one
// value. It can be mapped.
type Slab interface {
	FD() int
	Close() error
}

// newSlab reserves addresses for a slab.
func newSlab() (*slab, error) {
	at, err := unix.MmapPtr(-1, 0, nil, uintptr(slabBytes), unix.PROT_NONE,
		unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE)
	if err != nil {
		return nil, os.NewSyscallError("mmap", err)
	}
	return &slab{words: unsafe.Slice((*uint64)(at), SlabWords)}, nil
}

func (s *slab) address(chunk int) unsafe.Pointer { return unsafe.Pointer(&s.words[chunk*chunkWords]) }

func (s *slab) mapChunk(chunk int) error {
	_, err := unix.MmapPtr(s.m.FD(), int64(chunk*chunkBytes), s.address(chunk), chunkBytes,
		unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_FIXED)
	if err != nil {
		return os.NewSyscallError("mmap", err)
	}
	s.mapped |= 1 << chunk
	return nil
}

// unmapChunk leaves the addresses reserved.
func (s *slab) unmapChunk(chunk int) error {
	_, err := unix.MmapPtr(-1, 0, s.address(chunk), chunkBytes, unix.PROT_NONE,
		unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE|unix.MAP_FIXED)
	if err != nil {
		return os.NewSyscallError("mmap", err)
	}
	s.mapped &^= 1 << chunk
	return nil
}

// free gives the addresses back.
func (s *slab) free() error { return unix.MunmapPtr(unsafe.Pointer(&s.words[0]), uintptr(slabBytes)) }

func (s *slab) close() error {
	if s.m == nil {
		return nil
	}
	return errors.Join(s.free(), s.m.Close())
}

// mappedChunks are the chunks that are mapped, on the ring of a clock that looks
// for those to unmap.
type mappedChunks struct {
	ring []slabChunk
	hand int
}

type slabChunk struct {
	slab  *slab
	chunk int
}

// hold maps n words of a slab.
func (c *mappedChunks) hold(s *slab, at, n int) error {
	if n == 0 || s.m == nil {
		return nil
	}
	first, last := at/chunkWords, (at+n-1)/chunkWords
	want := ^uint64(0) << first & (^uint64(0) >> (63 - last))
	s.used |= want
	for chunk := first; s.mapped&want != want; chunk++ {
		if s.mapped>>chunk&1 != 0 {
			continue
		}
		if err := c.add(slabChunk{s, chunk}, want); err != nil {
			return err
		}
	}
	return nil
}

// add maps a chunk, in place of another one when there are many. The chunks keep of
// its slab stay.
func (c *mappedChunks) add(one slabChunk, keep uint64) error {
	if len(c.ring) < maxChunks {
		if err := one.slab.mapChunk(one.chunk); err != nil {
			return err
		}
		c.ring = append(c.ring, one)
		return nil
	}
	for ; ; c.hand++ {
		c.hand %= len(c.ring)
		old := c.ring[c.hand]
		bit := uint64(1) << old.chunk
		if old.slab == one.slab && keep&bit != 0 {
			continue
		}
		if old.slab.used&bit == 0 {
			break
		}
		old.slab.used &^= bit
	}
	// The ring has no hole when mapping fails: the old one goes last.
	if err := one.slab.mapChunk(one.chunk); err != nil {
		return err
	}
	old := c.ring[c.hand]
	c.ring[c.hand] = one
	c.hand++
	return old.slab.unmapChunk(old.chunk)
}
