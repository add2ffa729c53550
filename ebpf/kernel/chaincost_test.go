package kernel

import (
	"encoding/binary"
	"slices"
	"testing"
	"time"
	"unsafe"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/headwater/headwater/ebpf/language"
)

// The sizes of CPython 3.11's data of a call with four variables, and of a code object with a short body.
const (
	pythonFrame = 112
	pythonCode  = 320
)

// pythonSpec reads frames as the Spec of CPython 3.11 does: 40 bytes of each frame, and 72 of a code object that the
// frame before did not have.
func pythonSpec(first uint64) *language.Spec {
	return &language.Spec{Chain: &language.Chain{
		Start: []language.Step{{Op: language.Absolute, Offset: int64(first)}, {Op: language.Load}},
		Frame: language.Layout{
			Blocks:   []language.Block{{Offset: 32, Bytes: 40}, {At: language.Word{Mask: ^uint64(7)}, Offset: 72, Bytes: 72}},
			Words:    []language.Word{{Offset: 0}, {Offset: 24}, {Offset: 16}, {Offset: 32}},
			CodeMask: ^uint64(7),
			Cookie:   []language.Word{{Block: 1}, {Block: 1, Offset: 40}, {Block: 1, Offset: 56}, {Block: 1, Offset: 64}},
			Texts:    []language.Text{{At: language.Word{Block: 1, Offset: 40}, Bytes: 184}},
		},
		Next: language.Next{Word: 2},
	}}
}

// pythonFrames writes a chain of frames, one after the other as in CPython, and returns the address of the leaf. They
// have that number of code objects, in turn.
func pythonFrames(memory *arena, frames, codes int) (leaf uint64) {
	code := make([]uint64, codes)
	name := memory.text("function")
	for i := range code {
		code[i] = memory.address(memory.used)
		binary.NativeEndian.PutUint64(memory.bytes[memory.used+72:], uint64(i))
		binary.NativeEndian.PutUint64(memory.bytes[memory.used+72+40:], name)
		memory.used += pythonCode
	}
	for i := range frames {
		frame := memory.bytes[memory.used:]
		binary.NativeEndian.PutUint64(frame[32:], code[i%codes])
		binary.NativeEndian.PutUint64(frame[48:], leaf)
		binary.NativeEndian.PutUint64(frame[56:], code[i%codes]+200)
		leaf = memory.address(memory.used)
		memory.used += pythonFrame
	}
	return leaf
}

// BenchmarkChainFrame measures the cost of one more frame of an interpreter in the BPF program, as ns/frame: the
// difference of the run time of samples with many frames and with few, taken in turn of one thread of this process. The
// cost of the sample itself is ns/sample.
func BenchmarkChainFrame(b *testing.B) {
	for _, c := range []struct {
		name  string
		codes int
	}{{"recursion", 1}, {"two functions", 2}, {"32 functions", 32}, {"500 functions", 500}} {
		b.Run(c.name, func(b *testing.B) { benchmarkChain(b, c.codes) })
	}
}

func benchmarkChain(b *testing.B, codes int) {
	const few, many = 20, 520
	p := load(b)
	stats, err := ebpf.EnableStats(unix.BPF_STATS_RUN_TIME)
	if err != nil {
		b.Fatal(err)
	}
	defer stats.Close()
	memory := newArena(b, 1<<20)
	first := memory.words(0)
	leaves := []uint64{pythonFrames(memory, few, codes), pythonFrames(memory, many, codes)}
	setInterpreter(b, p, pythonSpec(first))
	if err := p.SetStacks(true, false, false); err != nil {
		b.Fatal(err)
	}
	attachToBurner(b, p, 1000)

	costs := make([][]float64, len(leaves)) // ns of a sample
	for b.Loop() {
		for n, frames := range []int{few, many} {
			binary.NativeEndian.PutUint64(memory.bytes, leaves[n])
			costs[n] = append(costs[n], sampleCost(b, p, frames))
		}
	}
	one, other := middle(costs[0]), middle(costs[1])
	b.ReportMetric((other-one)/(many-few), "ns/frame")
	b.ReportMetric(one, "ns/sample")
	b.ReportMetric(0, "ns/op")
}

func middle(values []float64) float64 {
	slices.Sort(values)
	return values[len(values)/2]
}

// attachToBurner samples one thread of this process, which burns CPU.
func attachToBurner(b *testing.B, p *Profiler, rate int) {
	stop, started := make(chan struct{}), make(chan uint32)
	b.Cleanup(func() { close(stop) })
	go burnLocked(started, stop)
	attr := clockAttr(time.Second / time.Duration(rate))
	attr.Size = uint32(unsafe.Sizeof(*attr))
	attr.Bits |= unix.PerfBitExcludeKernel
	event, err := unix.PerfEventOpen(attr, int(<-started), -1, -1, unix.PERF_FLAG_FD_CLOEXEC)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { unix.Close(event) })
	if err := p.Attach(event); err != nil {
		b.Fatal(err)
	}
}

// sampleCost returns the run time of a sample whose chain has a number of frames, in ns: the mean of some.
func sampleCost(b *testing.B, p *Profiler, frames int) float64 {
	for {
		time.Sleep(2 * time.Millisecond) // earlier samples end
		if _, err := p.ReadSamples(time.Now(), func(*Sample) {}); err != nil {
			b.Fatal(err)
		}
		r := someRuns(b, p)
		if r.frames == r.count*uint64(frames) { // else a run has ended between two readings, or was lost
			return float64(r.time) / float64(r.count)
		}
	}
}

// programRuns are the figures of some runs of the sampling program.
type programRuns struct {
	count  uint64
	time   time.Duration
	frames uint64 // read from chains
}

// someRuns waits for some runs of the program.
func someRuns(b *testing.B, p *Profiler) programRuns {
	const some = 5
	before := allRuns(b, p)
	for {
		time.Sleep(time.Millisecond)
		now := allRuns(b, p)
		r := programRuns{now.count - before.count, now.time - before.time, now.frames - before.frames}
		if r.count >= some {
			return r
		}
	}
}

func allRuns(b *testing.B, p *Profiler) programRuns {
	stats, err := p.objects.SampleCpu.Stats()
	if err != nil {
		b.Fatal(err)
	}
	c, err := p.Counters()
	if err != nil {
		b.Fatal(err)
	}
	return programRuns{stats.RunCount, stats.Runtime, c.ChainFrames}
}
