package profile

import (
	"math"
	"math/rand/v2"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/headwater/headwater/ebpf/common/clock"
	"github.com/headwater/headwater/ebpf/host/filework"
	"github.com/headwater/headwater/ebpf/host/procfs"
	"github.com/headwater/headwater/ebpf/kernel"
	"github.com/headwater/headwater/ebpf/process"
	"github.com/headwater/headwater/ebpf/sampler"
	"github.com/headwater/headwater/ebpf/unwind"
	"github.com/headwater/headwater/flame/pprof"
	"github.com/headwater/headwater/integration/testkit/need"
)

// BenchmarkCollect names and encodes the samples of two compilers in five seconds, at 99 Hz: a thousand stacks of 38
// frames in a large library. Most stacks are new, but their outer frames are always the same few hundred.
func BenchmarkCollect(b *testing.B) {
	builder, addresses := builderOf(b, "/lib/x86_64-linux-gnu/libLLVM-14.so.1", "/lib/x86_64-linux-gnu/libLLVM.so.19.1")
	random := rand.New(rand.NewPCG(1, 2))
	zipf := rand.NewZipf(random, 1.2, 8, uint64(len(addresses)-1))
	raw := &kernel.Sample{PID: 1, Outcome: unwind.Complete}
	s := &sampler.Sample{Sample: raw, Target: anyTarget(), ProcessComm: "clang"}
	b.ReportAllocs()
	for b.Loop() {
		for range 990 {
			raw.Time, raw.User = clock.Monotonic(), raw.User[:0]
			for frame := range 38 {
				at := random.IntN(300)
				if frame < 18 {
					at = int(zipf.Uint64())
				}
				raw.User = append(raw.User, addresses[at])
			}
			builder.Add(s)
		}
		for _, p := range builder.Collect() {
			if _, err := pprof.Encode(p.Pprof); err != nil {
				b.Fatal(err)
			}
		}
	}
}

// builderOf maps the first existing file of a list, and returns a Builder that knows it, with frames in it.
func builderOf(b *testing.B, paths ...string) (*Builder, []kernel.Frame) {
	b.Helper()
	for _, path := range paths {
		f, err := os.Open(path)
		if err != nil {
			continue
		}
		defer f.Close()
		stat, err := f.Stat()
		if err != nil {
			b.Fatal(err)
		}
		mem, err := unix.Mmap(int(f.Fd()), 0, int(stat.Size()), unix.PROT_READ|unix.PROT_EXEC, unix.MAP_PRIVATE)
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { unix.Munmap(mem) })
		tracker := process.NewTracker(process.NewLocalStore(), procfs.Default, &filework.Pool{}, nil)
		b.Cleanup(tracker.Close)
		tracker.ScanProcess(uint32(os.Getpid()))
		builder, err := New(Options{SampleRate: 99, Comm: CommStackframe}, tracker, &filework.Pool{})
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(builder.Close)
		return builder, framesOf(b, tracker, path)
	}
	need.Missing(b, "there is no large library")
	return nil, nil
}

// framesOf returns frames spread over the text of a file that this process has mapped.
func framesOf(b *testing.B, tracker *process.Tracker, path string) (frames []kernel.Frame) {
	b.Helper()
	var exe *process.Executable
	tracker.Mapped(func(e *process.Executable) bool { return e.Path == path || unixSame(e.Path, path) },
		func(m process.FileMapping) { exe = m.Exe })
	if exe == nil {
		b.Fatalf("%s is not known", path)
	}
	segment, ok := exe.Segment(0x2000000)
	if !ok {
		b.Fatal("no text")
	}
	random := rand.New(rand.NewPCG(3, 4))
	for range 30_000 {
		at := 0x1000000 + random.Uint64N(min(segment.Vaddr+segment.Memsz, math.MaxUint32)-0x3000000)
		frames = append(frames, kernel.Frame{Vaddr: at, Exe: exe.ID, Flags: kernel.ReturnAddress})
	}
	return frames
}

func unixSame(a, b string) bool {
	first, err1 := os.Stat(a)
	second, err2 := os.Stat(b)
	return err1 == nil && err2 == nil && os.SameFile(first, second)
}
