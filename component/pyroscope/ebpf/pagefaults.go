package ebpf

import (
	"github.com/headwater/headwater/component"
	"github.com/headwater/headwater/ebpf"
	"github.com/headwater/headwater/flame/kind"
)

// PageFaultsArguments enable profiles of page faults, of the types page_faults and major_faults. Without the block
// there are none.
type PageFaultsArguments struct {
	Period      int `river:"period,attr,optional"`       // page faults of a CPU per sample; 0: none are sampled
	MajorPeriod int `river:"major_period,attr,optional"` // the same for faults that wait for a disk
}

// SetToDefault implements river.Defaulter.
func (p *PageFaultsArguments) SetToDefault() {
	*p = PageFaultsArguments{
		Period: int(kind.Of(kind.PageFaults).Period), MajorPeriod: int(kind.Of(kind.MajorFaults).Period),
	}
}

// validate returns an error that names the attribute that is out of range. The block may be missing.
func (p *PageFaultsArguments) validate() error {
	if p == nil {
		return nil
	}
	for _, of := range []struct {
		name  string
		value int
	}{{"period", p.Period}, {"major_period", p.MajorPeriod}} {
		if of.value < 0 || of.value > ebpf.MaxPeriod {
			return component.Refuse("page_faults", "is invalid: %s must be between 0 and %d, got %d", of.name,
				ebpf.MaxPeriod, of.value)
		}
	}
	return nil
}

// periods returns the number of events per sample, by kind.
func (p *PageFaultsArguments) periods() (out [kind.Count]int64) {
	if p != nil {
		out[kind.PageFaults], out[kind.MajorFaults] = int64(p.Period), int64(p.MajorPeriod)
	}
	return out
}
