package ebpf

import (
	"github.com/headwater/headwater/ebpf/limit"
	"github.com/headwater/headwater/ebpf/profile"
	"github.com/headwater/headwater/ebpf/sampler"
)

// Stats returns counters since Start and gauges of the present state, which after Close is
// that of the end.
func (s *Session) Stats() Stats {
	if last := s.last.Load(); last != nil {
		return *last
	}
	var out Stats
	sampling, err := s.sampler.Stats()
	out.addSampling(&sampling, err == nil)
	profiles := s.profiles.Stats()
	out.addProfiles(&profiles)
	late, hanging, refused := s.files.Counts()
	out.FilesLate, out.FilesHanging, out.FilesRefused = uint64(late), uint64(hanging), refused
	out.Errors = errorsOf(&sampling, &profiles)
	out.LimitHits = limitHits(sampling.LimitHits, profiles.LimitHits)
	return out
}

// keepStats keeps the figures of a session that ends. What nobody has collected is lost.
func (s *Session) keepStats() {
	last := s.Stats()
	if used := last.profiled + last.Ignored; last.Delivered > used {
		last.Lost[LostToTheEnd], last.Delivered = last.Delivered-used, used
	}
	s.last.Store(&last)
}

// maxErrors bounds the distinct errors of Stats.
const maxErrors = 512

// errorsOf returns what cost names or stacks, and how often.
func errorsOf(sampling *sampler.Stats, profiles *profile.Stats) map[string]uint64 {
	all := limit.Texts{Most: maxErrors}
	for text, n := range sampling.Errors {
		all.Add(text, n)
	}
	for _, text := range profiles.Errors {
		all.Add(text, 1)
	}
	return all.Counts()
}

// limitHits adds up how often readers of foreign bytes stopped at a bound.
func limitHits(parts ...map[limit.Reader]uint64) map[string]uint64 {
	sum := map[string]uint64{}
	for _, hits := range parts {
		for reader, n := range hits {
			sum[string(reader)] += n
		}
	}
	return sum
}
