package tablestore

import (
	"errors"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	// chunkBytes is the unit in which slabs are mapped. The kernel maps a whole chunk at once, so the whole chunk
	// counts as memory of this process, in addition to the slab itself.
	chunkBytes = 32 << 10
	chunkWords = chunkBytes / 8
	// maxChunks is the maximum number of mapped chunks: 4 MB. To replace a mapped chunk takes microseconds, and a
	// hundred in some virtual machines, where other CPUs must flush the old mapping.
	maxChunks = 128
)

// slab is one Slab, with a reserved address range of this process in which chunks of it are mapped on demand.
type slab struct {
	words []uint64
	m     Slab // nil in tests: words is ordinary memory

	mapped, used uint64 // a bit for each chunk; used: since the clock's hand last passed it
}

// Slab is SlabWords words of memory that BPF programs read: a BPF array map with one value, which can be mapped.
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

// unmapChunk unmaps a chunk; its addresses stay reserved.
func (s *slab) unmapChunk(chunk int) error {
	_, err := unix.MmapPtr(-1, 0, s.address(chunk), chunkBytes, unix.PROT_NONE,
		unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE|unix.MAP_FIXED)
	if err != nil {
		return os.NewSyscallError("mmap", err)
	}
	s.mapped &^= 1 << chunk
	return nil
}

// freeMemory releases the reserved addresses.
func (s *slab) freeMemory() error {
	return unix.MunmapPtr(unsafe.Pointer(&s.words[0]), uintptr(slabBytes))
}

func (s *slab) close() error {
	if s.m == nil {
		return nil
	}
	return errors.Join(s.freeMemory(), s.m.Close())
}

// mappedChunks is the set of mapped chunks, on the ring of a clock that selects chunks to unmap.
type mappedChunks struct {
	ring []slabChunk
	hand int
}

type slabChunk struct {
	slab  *slab
	chunk int
}

// holdWords maps n words of a slab, starting at word at.
func (c *mappedChunks) holdWords(s *slab, at, n int) error {
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
		if err := c.addChunk(slabChunk{s, chunk}, want); err != nil {
			return err
		}
	}
	return nil
}

// addChunk maps a chunk, and replaces another chunk if maxChunks are mapped. It does not replace the chunks in keep of
// the same slab.
func (c *mappedChunks) addChunk(one slabChunk, keep uint64) error {
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
	// Unmap the old chunk last, so that the ring has no hole if mapping fails.
	if err := one.slab.mapChunk(one.chunk); err != nil {
		return err
	}
	old := c.ring[c.hand]
	c.ring[c.hand] = one
	c.hand++
	return old.slab.unmapChunk(old.chunk)
}
