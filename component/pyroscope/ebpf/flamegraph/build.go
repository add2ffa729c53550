package flamegraph

import (
	"strings"

	"github.com/google/pprof/profile"
)

// programKey is a program of a service: the same one after a restart, in another container, and in all replicas.
type programKey struct{ service, path string }

// build is one build of a program, as profiles have it.
type build struct{ path, id string }

// distinct reports whether the samples of a build can be told from those of others that run at the same time.
func (b build) distinct() bool { return !strings.HasPrefix(b.id, "file:") }

// in returns what a profile has of a mapping of the build.
func (b build) in(m *profile.Mapping) bool {
	return m != nil && m.File == b.path && (m.BuildID == b.id || m.BuildID == "" && !b.distinct())
}

// only leaves the samples of a build in a profile: those with a frame of its file. What processes of it do without one,
// such as to start, is in no file of theirs.
func (b build) only(p *profile.Profile) {
	of := map[*profile.Location]bool{}
	for _, l := range p.Location {
		of[l] = b.in(l.Mapping)
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

// samplesOf returns how many samples the processes of a build have.
func (k *kept) samplesOf(b build) (samples, withUser, complete uint64) {
	for _, p := range k.Processes {
		if p.Program == b.path && p.Build == b.id {
			samples, withUser, complete = samples+p.Samples, withUser+p.WithUser, complete+p.Complete
		}
	}
	return samples, withUser, complete
}
