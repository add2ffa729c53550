package ebpf

import (
	"github.com/alecthomas/units"

	"github.com/headwater/headwater/component"
	"github.com/headwater/headwater/ebpf/source/heap"
	"github.com/headwater/headwater/flame/kind"
)

// HeapArguments enable profiles of memory in use, of the type memory. Without the block there are none.
type HeapArguments struct {
	SampleBytes units.Base2Bytes `river:"sample_bytes,attr,optional"` // allocated per sample; 0: no samples are taken
	// OverheadLimit is the share of its CPU time that a process may spend on probes, in percent; 0: no limit.
	OverheadLimit float64 `river:"overhead_limit,attr,optional"`
}

// SetToDefault implements river.Defaulter.
func (h *HeapArguments) SetToDefault() {
	*h = HeapArguments{
		SampleBytes: units.Base2Bytes(kind.Of(kind.Heap).Period), OverheadLimit: 100 * heap.DefaultLimit,
	}
}

// validate returns an error that names the attribute that is out of range. The block may be missing.
func (h *HeapArguments) validate() error {
	if h != nil && (h.SampleBytes < 0 || h.SampleBytes > heap.MaxSampleBytes) {
		return component.Refuse("heap", "is invalid: sample_bytes must be between 0B and %s, got %s",
			units.Base2Bytes(heap.MaxSampleBytes), h.SampleBytes)
	}
	if h != nil && !(h.OverheadLimit >= 0 && h.OverheadLimit <= 100) {
		return component.Refuse("heap", "is invalid: overhead_limit must be between 0 (no limit) and 100 percent of a "+
			"process's CPU time, got %g", h.OverheadLimit)
	}
	return nil
}

// limit returns the share of its CPU time that a process may spend on probes.
func (h *HeapArguments) limit() float64 {
	if h == nil {
		return 0
	}
	return h.OverheadLimit / 100
}

// bytes returns the number of allocated bytes per sample, 0 if no samples are taken.
func (h *HeapArguments) bytes() int {
	if h == nil {
		return 0
	}
	return int(h.SampleBytes)
}
