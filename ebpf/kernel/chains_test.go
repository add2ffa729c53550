package kernel

import (
	"encoding/binary"
	"fmt"
	"os"
	"runtime"
	"slices"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/headwater/headwater/ebpf/host/procfs"
	"github.com/headwater/headwater/ebpf/language"
	"github.com/headwater/headwater/ebpf/unwind"
	"github.com/headwater/headwater/integration/testkit"
)

// arena is memory at a fixed address.
type arena struct {
	bytes []byte
	used  int
}

func newArena(t testing.TB, size int) *arena {
	t.Helper()
	b, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Munmap(b) })
	return &arena{bytes: b}
}

func (a *arena) address(at int) uint64 { return uint64(uintptr(unsafe.Pointer(&a.bytes[at]))) }

// words puts words into the memory and returns their address.
func (a *arena) words(words ...uint64) uint64 {
	at := a.used
	for _, w := range words {
		binary.NativeEndian.PutUint64(a.bytes[a.used:], w)
		a.used += 8
	}
	return a.address(at)
}

func (a *arena) text(s string) uint64 {
	at := a.used
	copy(a.bytes[at:], s)
	a.used += (len(s) + 8) &^ 7
	return a.address(at)
}

// testSpec finds frames in a list of threads: {next, thread ID, first frame}, of frames
// {caller, code, ip, flags} and code objects {name, number, number}.
func testSpec(list uint64) *language.Spec {
	return &language.Spec{Chain: &language.Chain{
		Start: []language.Step{{Op: language.Absolute, Offset: int64(list)}, {Op: language.Load}},
		Find:  &language.Find{Word: 8, To: language.ByTID, Next: 0},
		Then:  []language.Step{{Op: language.Load, Offset: 16}},
		Frame: language.Layout{
			Blocks: []language.Block{{Bytes: 32}, {At: language.Word{Offset: 8}, Bytes: 24}},
			Words: []language.Word{
				{Offset: 0}, {Offset: 8}, {Offset: 16}, {Offset: 24, Mask: 0xff}, {Block: 1, Offset: 8},
			},
			Code: 1,
			Cookie: []language.Word{
				{Block: 1, Offset: 8}, {Block: 1, Offset: 16},
			},
			Texts: []language.Text{{At: language.Word{Block: 1}, Bytes: 24}},
		},
		Next: language.Next{Word: 0},
		Stop: &language.Test{Word: 3, Mask: 0x0f, Value: 9},
	}}
}

// setInterpreter gives this process an interpreter.
func setInterpreter(t testing.TB, p *Profiler, s *language.Spec) (id uint32) {
	t.Helper()
	number, id, err := p.Tables().AddInterpreter(s)
	if err != nil {
		t.Fatal(err)
	}
	maps, err := procfs.Default.ExecMappings(uint32(os.Getpid()))
	if err != nil || len(maps) == 0 {
		t.Fatalf("mappings of this process: %v, %v", maps, err)
	}
	process := unwind.Process{Generation: 1, Interpreter: number}
	for _, m := range maps {
		if m.Start < 1<<63 {
			process.Mappings = append(process.Mappings, unwind.Mapping{Start: m.Start, End: m.End, Exe: 1})
		}
	}
	if err := p.Tables().SetProcess(uint32(os.Getpid()), process); err != nil {
		t.Fatal(err)
	}
	return id
}

// burnLocked runs on a thread of its own, whose ID it sends first.
func burnLocked(tid chan<- uint32, stop <-chan struct{}) {
	runtime.LockOSThread()
	tid <- uint32(unix.Gettid())
	burn(stop)
}

// TestChain reads a chain of this very process, whose frames are known.
func TestChain(t *testing.T) {
	p := load(t)
	memory := newArena(t, 1<<20)
	list := memory.words(0)
	stop, started := make(chan struct{}), make(chan uint32)
	defer close(stop)
	go burnLocked(started, stop)
	tid := <-started

	type wanted struct{ code, ip, flags, number, cookie uint64 }
	const depth = 40
	var want []wanted
	stopped := memory.words(0, 0, 0, 0x109) // is not taken
	caller := stopped
	for i := range uint64(depth) {
		code := memory.words(memory.text(fmt.Sprintf("function_%d", i%8)), i%8, 1000+i%8)
		caller = memory.words(caller, code, 7*i, 0xff00|i%4)
		want = append(want, wanted{code, 7 * i, i % 4, i % 8, language.Fold([]uint64{i % 8, 1000 + i%8})})
	}
	slices.Reverse(want)
	other := memory.words(0, 1, 0)
	own := memory.words(other, uint64(tid), caller)
	binary.NativeEndian.PutUint64(memory.bytes, memory.words(own, 2, 0))

	id := setInterpreter(t, p, testSpec(list))
	if err := p.SetStacks(true, true, true); err != nil {
		t.Fatal(err)
	}
	if err := p.Start(500); err != nil {
		t.Fatal(err)
	}
	mine, named := 0, map[uint64]string{}
	testkit.Eventually(t, "there are 20 samples of the thread", func() bool {
		_, err := p.ReadSamples(time.Now().Add(100*time.Millisecond), func(s *Sample) {
			if s.TID != tid || s.Chain.Interpreter != id {
				return
			}
			mine++
			if s.Chain.End != language.ChainWhole || len(s.Chain.Frames) != depth {
				t.Fatalf("a chain of %d frames ended as %s, want %d, %s", len(s.Chain.Frames), s.Chain.End, depth,
					language.ChainWhole)
			}
			for i, f := range s.Chain.Frames {
				got := wanted{f.Words[1], f.Words[2], f.Words[3], f.Words[4], f.Cookie}
				if got != want[i] {
					t.Fatalf("frame %d is %+v, want %+v", i, got, want[i])
				}
			}
			for _, c := range s.Chain.Codes {
				if c.Cookie != language.Fold(c.Words) {
					t.Errorf("code object 0x%x has cookie 0x%x of words %d", c.Address, c.Cookie, c.Words)
				}
				named[c.Address] = string(c.Text[0][:10])
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		return mine >= 20
	})
	for _, w := range want {
		if name := fmt.Sprintf("function_%d", w.number); named[w.code] != name {
			t.Errorf("code object 0x%x is called %q, want %q", w.code, named[w.code], name)
		}
	}
	c, err := p.Counters()
	if err != nil {
		t.Fatal(err)
	}
	if c.Chains[language.ChainWhole] < uint64(mine) || c.ChainFrames < uint64(mine*depth) || c.CodesNamed < depth {
		t.Errorf("counters %+v do not show %d chains of %d frames", c, mine, depth)
	}
}
