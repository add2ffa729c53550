package record

import (
	"fmt"

	"github.com/headwater/headwater/ebpf/process/target"
	"github.com/headwater/headwater/ebpf/sampler"
	"github.com/headwater/headwater/ebpf/source/probe"
	"github.com/headwater/headwater/ebpf/source/probing"
	"github.com/headwater/headwater/flame/kind"
)

// isProbe reports whether a probe is recorded.
func (o *Options) isProbe() bool { return o.Probe != probe.Probe{} }

// setProbe sets the kind and period from the probe, if there is one.
func (o *Options) setProbe() (err error) {
	if !o.isProbe() {
		return nil
	}
	o.Kind, err = kind.OfProbe(o.Probe.Info())
	o.Period = o.Probe.Period
	return err
}

// startProbe attaches the probe to record, if there is one.
func (r *Recorder) startProbe() error {
	if !r.options.isProbe() {
		return nil
	}
	r.probing = probing.New(probing.Options{
		Completer: r.sampler,
		Target:    func(pid uint32) (*target.Target, bool) { return r.target, r.selected.hasProcess(pid) },
		Use:       func(s *sampler.Sample) { _ = r.addSample(s) }, // no timestamps are kept for these samples
	})
	r.probing.Update(probing.Config{
		Probes: []probe.Probe{r.options.Probe}, UserStacks: r.options.UserStacks, KernelStacks: r.options.KernelStacks,
	})
	if err := r.probing.Stats().Failure; err != nil {
		return fmt.Errorf("%s: %w", r.options.Probe.Link, err)
	}
	return nil
}
