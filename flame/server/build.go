package server

import (
	"strings"

	"github.com/google/pprof/profile"
)

// programKey identifies a program of a service: across restarts, containers and replicas.
type programKey struct{ service, path string }

// build is one build of a program, as recorded in profiles.
type build struct{ path, id string }

// distinct reports whether samples of the build can be distinguished from samples of other builds that run at the same
// time.
func (b build) distinct() bool { return !strings.HasPrefix(b.id, "file:") }

// isMappedAt reports whether a mapping in a profile belongs to the build.
func (b build) isMappedAt(m *profile.Mapping) bool {
	return m != nil && m.File == b.path && (m.BuildID == b.id || m.BuildID == "" && !b.distinct())
}

// keepOnly keeps the samples of a build in a profile: the samples with a frame in the build's file. Samples of its
// processes without such a frame, such as during process start, cannot be attributed to the build.
func (b build) keepOnly(p *profile.Profile) {
	of := map[*profile.Location]bool{}
	for _, l := range p.Location {
		of[l] = b.isMappedAt(l.Mapping)
	}
	kept := p.Sample[:0]
	for _, s := range p.Sample {
		for _, l := range s.Location {
			if of[l] {
				kept = append(kept, s)
				break
			}
		}
	}
	p.Sample = kept
}

// samplesOf returns the numbers of samples of the processes that run a build.
func (k *kept) samplesOf(b build) (samples, withUser, complete uint64) {
	for _, p := range k.Processes {
		if p.Program == b.path && p.Build == b.id {
			samples, withUser, complete = samples+p.Samples, withUser+p.WithUser, complete+p.Complete
		}
	}
	return samples, withUser, complete
}
