package profile

import (
	"slices"
	"time"

	"github.com/headwater/headwater/ebpf/kernel"
	"github.com/headwater/headwater/ebpf/sampler"
	"github.com/headwater/headwater/flame/pprof"
)

// Named is a named sample. Kernel and User hold the locations of its kernel and user frames, in the same order.
type Named struct {
	Kernel []*pprof.Location
	User   []*pprof.Location
}

// Name names the frames of samples like Collect, without counting the samples. Names that cannot be read within the
// given time are missing.
func (b *Builder) Name(samples []*sampler.Sample, patience time.Duration) []Named {
	b.collecting.Lock()
	defer b.collecting.Unlock()
	b.mu.Lock()
	o := b.options
	b.mu.Unlock()
	stacks := make([]*stack, len(samples))
	for i, s := range samples {
		stacks[i] = &stack{outcome: s.Outcome, kernel: s.Kernel, user: o.frames(s)}
		if s.OutsideFile {
			stacks[i].pid = s.PID
			b.names.jit.Observe(s.PID)
		}
	}
	namer := b.names.namer(namingOf(&o))
	namer.readStacks(slices.Values(stacks), patience)
	out := make([]Named, len(stacks))
	for i, s := range stacks {
		out[i] = Named{namer.appendKernel(nil, s), namer.appendUser(nil, s, &o)}
	}
	return out
}

// appendKernel appends the locations of the frames in the kernel, leaf first.
func (n *namer) appendKernel(out []*pprof.Location, s *stack) []*pprof.Location {
	for i, addr := range s.kernel {
		out = append(out, n.kernelLocation(kernelAddress{addr, i > 0}))
	}
	return out
}

// appendUser appends the locations of the frames in user space, leaf first.
func (n *namer) appendUser(out []*pprof.Location, s *stack, o *Options) []*pprof.Location {
	return n.appendFrames(out, s.user, s.pid, o)
}

func (n *namer) appendFrames(out []*pprof.Location, frames []kernel.Frame, pid uint32, o *Options) []*pprof.Location {
	for _, f := range frames {
		out = append(out, n.location(f, pid, o))
	}
	return out
}
