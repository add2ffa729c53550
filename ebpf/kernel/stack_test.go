package kernel

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/headwater/headwater/integration/testkit/need"
)

func TestStack(t *testing.T) {
	s := Stack{stackPart: stackPart{bytes: make([]byte, 3*stackPage), base: 0x7000, pages: 0b101}}
	s.more = []stackPart{{bytes: make([]byte, stackPage), base: 0x20000, pages: 1}}
	s.more[0].bytes[16] = 3
	s.bytes[8], s.bytes[2*stackPage] = 1, 2
	for addr, want := range map[uint64]struct {
		v  uint64
		ok bool
	}{
		0x7008: {1, true}, 0x7ff8: {0, true}, 0x9000: {2, true}, 0x9ff8: {0, true},
		0x6ff8: {}, 0x7ffc: {}, 0x8000: {}, 0x8ffc: {}, 0x9ffc: {}, 0xa000: {}, 0x20010: {3, true}, 0x21000: {},
		1<<64 - 8: {},
	} {
		if v, ok := s.ReadU64(addr); v != want.v || ok != want.ok {
			t.Errorf("0x%x reads as %d, %v, want %+v", addr, v, ok, want)
		}
	}
}

// packPages packs pages by bpf/sample/pack.h, built for the host.
func packPages(t *testing.T, program string, pages []byte) []byte {
	t.Helper()
	cmd := exec.Command(program)
	cmd.Stdin = bytes.NewReader(pages)
	packed, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	return packed
}

func buildPack(t *testing.T) string {
	t.Helper()
	if _, err := os.Stat("../../bpf"); err != nil {
		t.Skip(err) // the machines of integration/kernels have this test, and neither sources nor a compiler
	}
	need.Tools(t, "gcc")
	program := filepath.Join(t.TempDir(), "pack")
	cmd := exec.Command("gcc", "-O1", "-Wall", "-Wextra", "-Werror", "-fsanitize=undefined", "-fno-sanitize-recover",
		"-I../../bpf", "-o", program, "testdata/pack.c")
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", cmd, err, text)
	}
	return program
}

// TestPackedStack packs pages as BPF does, from blank pages to pages without a zero, and reads them: present words have
// their values, and absent ones are absent.
func TestPackedStack(t *testing.T) {
	program := buildPack(t)
	r := rand.New(rand.NewPCG(1, 2))
	const base = 0x7fff_0000_0000
	for range 20 {
		var pages uint32
		memory := make([]byte, uint64(stackPages)*stackPage)
		var read []byte
		for page := range stackPages {
			if r.IntN(5) == 0 {
				continue
			}
			pages |= 1 << page
			words := memory[uint64(page)*stackPage:][:stackPage]
			for i, share := 0, r.IntN(5); i < len(words); i += 8 {
				if r.IntN(4) < share {
					binary.LittleEndian.PutUint64(words[i:], r.Uint64()>>r.IntN(64))
				}
			}
			read = append(read, words...)
		}
		part := stackPart{bytes: packPages(t, program, read), base: base, pages: pages, packed: true}
		if err := part.check(); err != nil {
			t.Fatal(err)
		}
		for at := uint64(0); at < uint64(len(memory)); at++ {
			if at%8 != 0 && r.IntN(50) != 0 {
				continue
			}
			var want [8]byte
			copy(want[:], memory[at:])
			ok := pages>>(at/stackPage)&1 != 0 && (at+7)/stackPage < uint64(stackPages) &&
				pages>>((at+7)/stackPage)&1 != 0
			got, gotOK := part.readU64(base + at)
			if gotOK != ok || ok && got != binary.LittleEndian.Uint64(want[:]) {
				t.Fatalf("pages %#x, offset %#x reads as %#x, %v, want %x, %v", pages, at, got, gotOK, want, ok)
			}
		}
		if len(part.bytes) > 0 {
			for _, bad := range []stackPart{
				{bytes: part.bytes[:len(part.bytes)-8], pages: pages, packed: true},
				{bytes: append(bytes.Clone(part.bytes), make([]byte, 8)...), pages: pages, packed: true},
				{bytes: part.bytes, pages: pages | 1<<stackPages, packed: true},
			} {
				if bad.check() == nil {
					t.Errorf("a part of %d bytes with pages %#x is taken, that with %d bytes and %#x is right",
						len(bad.bytes), bad.pages, len(part.bytes), pages)
				}
			}
		}
	}
	blank := packPages(t, program, make([]byte, uint64(stackPages)*stackPage))
	if want := stackPages * pairBitBytes; len(blank) != want {
		t.Errorf("blank pages take %d bytes, want %d", len(blank), want)
	}
}
