package profile

import (
	"encoding/binary"

	"github.com/headwater/headwater/ebpf/kernel"
	"github.com/headwater/headwater/ebpf/sampler"
	"github.com/headwater/headwater/ebpf/source/wait"
	"github.com/headwater/headwater/flame/kind"
	"github.com/headwater/headwater/flame/pprof"
)

// Labels of samples of kind.OffCPU and kind.Wall, unless disabled by Options.
const (
	LabelState = "state" // state of the thread, see kernel.ThreadState
	LabelWait  = "wait"  // reason of the wait, see wait.Of; absent if it is unknown, or the thread runs
	LabelWaker = "waker" // waker that ended the wait, see wait.Waker; absent if samples have none
)

// doing is the state of a thread, if samples have it.
type doing struct {
	known bool
	state kernel.ThreadState
	call  int64  // its current system call, or kernel.NoCall
	waker string // the waker that ended its wait, "" if unknown
}

// doingOf returns the state of a sample's thread, for kinds of samples that have it.
func doingOf(s *sampler.Sample) doing {
	switch {
	case s.Thread != nil:
		return doing{known: true, state: s.Thread.State, call: s.Thread.Call}
	case s.Kind == kind.Wall:
		return doing{known: true, state: kernel.Running, call: kernel.NoCall}
	}
	return doing{}
}

// appendKey appends d to a key, to be read by keyReader.doing.
func (d doing) appendKey(b []byte) []byte {
	if !d.known {
		return append(b, 0)
	}
	b = binary.NativeEndian.AppendUint64(append(b, byte(d.state)+1), uint64(d.call))
	return append(append(b, byte(len(d.waker))), d.waker...) // thread names are short
}

func (b *keyReader) doing() doing {
	state := b.byte()
	if state == 0 {
		return doing{}
	}
	d := doing{known: true, state: kernel.ThreadState(state - 1), call: int64(b.uint64())}
	d.waker = b.text(int(b.byte()))
	return d
}

// labels returns the labels for the state of the thread. stack is the kernel part of its stack.
func (d doing) labels(stack []*pprof.Location, o *Options) (out []pprof.Label) {
	if !d.known {
		return nil
	}
	if !o.NoStateLabel {
		out = append(out, pprof.Label{Key: LabelState, Text: d.state.String()})
	}
	if d.waker != "" {
		out = append(out, pprof.Label{Key: LabelWaker, Text: d.waker})
	}
	if o.NoWaitLabel {
		return out
	}
	var functions []string
	for _, l := range stack {
		for _, line := range l.Lines {
			functions = append(functions, line.Function)
		}
	}
	if reason := wait.Of(&kernel.Thread{State: d.state, Call: d.call}, functions); reason != "" {
		out = append(out, pprof.Label{Key: LabelWait, Text: reason})
	}
	return out
}

// wakerOf returns the waker that ended the wait of a sample's thread, or "" if the sample has none.
func (n *names) wakerOf(s *sampler.Sample) string {
	if s.Waker == nil {
		return ""
	}
	var functions []string
	for i, addr := range s.Waker.Kernel {
		functions = append(functions, n.symbolizer.Kernel(addr, i > 0).Function)
	}
	return wait.Waker(s.Waker, s.PID, functions)
}
