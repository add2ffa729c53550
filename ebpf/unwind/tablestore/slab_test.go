package tablestore

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"golang.org/x/sys/unix"
)

// memFile is memory that can be mapped like a slab.
type memFile int

func (f memFile) FD() int      { return int(f) }
func (f memFile) Close() error { return unix.Close(int(f)) }

func newMemFile(t *testing.T) memFile {
	fd, err := unix.MemfdCreate("slab", 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Ftruncate(fd, int64(slabBytes)); err != nil {
		t.Fatal(err)
	}
	return memFile(fd)
}

// TestChunks writes and reads ranges of several slabs at random: written words persist in the file and in memory across
// unmapping, and the number of mapped chunks is within its limit.
func TestChunks(t *testing.T) {
	const slabsThere, rounds = 5, 4000
	s := &slabs{}
	for range slabsThere {
		one, err := newSlab()
		if err != nil {
			t.Fatal(err)
		}
		one.m = newMemFile(t)
		s.data = append(s.data, one)
	}
	want := make([]uint64, slabsThere*SlabWords)
	random := rand.New(rand.NewPCG(3, 4))
	for i := range uint64(rounds) {
		n := 1 + random.IntN(200)
		if i%50 == 0 {
			n = 1 + random.IntN(SlabWords)
		}
		at := random.IntN(slabsThere)*SlabWords + random.IntN(SlabWords-n+1)
		words, err := s.words(uint32(at), n)
		if err != nil {
			t.Fatal(err)
		}
		for j, w := range words {
			if w != want[at+j] {
				t.Fatalf("word %d is %#x, want %#x", at+j, w, want[at+j])
			}
			words[j], want[at+j] = i<<32|uint64(j), i<<32|uint64(j)
		}
		mapped := 0
		for _, one := range s.data {
			for chunk := range slabBytes / chunkBytes {
				mapped += int(one.mapped >> chunk & 1)
			}
		}
		if mapped > maxChunks || mapped != len(s.mapped.ring) {
			t.Fatalf("%d chunks are mapped, %d on the ring, want at most %d", mapped, len(s.mapped.ring), maxChunks)
		}
	}
	b := make([]byte, 8)
	for i, one := range s.data {
		if _, err := unix.Pread(one.m.FD(), b, 0); err != nil || binary.NativeEndian.Uint64(b) != want[i*SlabWords] {
			t.Fatalf("slab %d holds %x, %v, want %#x", i, b, err, want[i*SlabWords])
		}
	}
	if err := s.close(); err != nil {
		t.Fatal(err)
	}
}
