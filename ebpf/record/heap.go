package record

import (
	"github.com/headwater/headwater/ebpf/process/target"
	"github.com/headwater/headwater/ebpf/sampler"
	"github.com/headwater/headwater/ebpf/source/heap"
	"github.com/headwater/headwater/flame/kind"
)

// startHeap starts to trace the calls of allocators, if memory in use is recorded. If processes or a command are
// selected, processes that end count with the memory in use at their end, as the recording ends with them.
func (r *Recorder) startHeap() error {
	if r.options.Kind != kind.Heap {
		return nil
	}
	r.heap = heap.New(heap.Options{
		Sampler:   r.sampler,
		Target:    func(pid uint32) (*target.Target, bool) { return r.target, r.selected.hasProcess(pid) },
		Use:       func(s *sampler.Sample) { _ = r.addSample(s) }, // no timestamps are kept for these samples
		KeepEnded: r.options.Command || len(r.options.PIDs) > 0,
		Early:     r.options.Command,
	})
	return r.heap.Update(heap.Config{
		SampleBytes: int(r.options.Period), UserStacks: r.options.UserStacks,
		Limit: r.options.HeapLimit, Each: !r.options.Command && !r.options.everything(),
	})
}
