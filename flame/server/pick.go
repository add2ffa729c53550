package server

import (
	"errors"
	"math"
	"slices"

	"github.com/headwater/headwater/flame/kind"
	"github.com/headwater/headwater/flame/server/archive"
)

// pickProfiles returns the profiles that s selects, oldest first.
func (s selection) pickProfiles(entries []*kept) []*kept {
	var picked []*kept
	for _, k := range entries {
		target := s.target == allTargets || s.target == k.target.id || s.target == k.target.service
		if k.end > s.from && k.end <= s.to && target && k.kindName() == s.kindName() {
			picked = append(picked, k)
		}
	}
	return picked
}

// newestEnd returns the end of the newest round, in ms since 1970; 0 if none is kept.
func (p *Page) newestEnd() int64 {
	if end := newestEnd(p.history.allProfiles()); end > 0 {
		return end
	}
	if a := p.disk.Load().reader(); a != nil {
		return a.Usage().Last.End
	}
	return 0
}

// newestEnd returns the end of the newest profile; 0 if there are none.
func newestEnd(entries []*kept) int64 {
	if len(entries) == 0 {
		return 0
	}
	return entries[len(entries)-1].end
}

// rounds holds the kept profiles of a time range: rounds on disk, followed by profiles in memory.
type rounds struct {
	holder *archive.Archive[Profile]
	onDisk []archive.Round
	memory []*kept
}

// rounds returns the profiles kept for the time of s. The oldest round in memory may be incomplete, so it is read from
// disk if possible. At most maxBytes of files, the newest ones, are read.
func (p *Page) rounds(s selection, maxBytes int64) (r rounds) {
	r.memory = p.history.allProfiles()
	if r.holder = p.disk.Load().reader(); r.holder == nil {
		return r
	}
	oldest := int64(math.MaxInt64)
	if len(r.memory) > 0 {
		oldest = r.memory[0].end
	}
	r.onDisk = r.holder.Rounds(s.from, min(s.to, oldest), maxBytes)
	if n := len(r.onDisk); n > 0 && r.onDisk[n-1].End == oldest {
		r.memory = slices.DeleteFunc(r.memory, func(k *kept) bool { return k.end == oldest })
	}
	return r
}

// newest returns s, restricted to its newest round if profiles of its kind are snapshots: a sum of snapshots would be
// meaningless.
func (p *Page) newest(s selection) selection {
	k, _ := kind.ByName(s.kindName()) // an unknown kind counts as CPU time
	if !k.IsSnapshot() {
		return s
	}
	_ = p.rounds(s, math.MaxInt64).eachRound(s, func(entries []*kept) error { // the function never returns an error
		s.from = entries[0].end - 1
		return nil
	})
	return s
}

// eachRound passes the profiles that s selects to visit, round by round, oldest first. It reads one round at a time
// from disk, and leaves out rounds that cannot be read.
func (r rounds) eachRound(s selection, visit func([]*kept) error) error {
	targets := map[string]target{} // share equal targets
	for _, at := range r.onDisk {
		stored, err := r.holder.Read(at)
		if errors.Is(err, archive.ErrGone) {
			continue
		}
		if err != nil {
			return err
		}
		var entries []*kept
		for i := range stored {
			k := &kept{Profile: stored[i].About, target: newTarget(stored[i].About.Labels), start: at.Start, end: at.End}
			k.stored = &stored[i]
			k.Labels, k.stored.About = nil, Profile{}
			if known, ok := targets[k.target.id]; ok {
				k.target = known
			}
			targets[k.target.id] = k.target
			entries = append(entries, k)
		}
		if entries = s.pickProfiles(entries); len(entries) == 0 {
			continue
		}
		if err := visit(entries); err != nil {
			return err
		}
	}
	return eachRound(s.pickProfiles(r.memory), visit)
}

// eachRound passes profiles to visit, round by round.
func eachRound(entries []*kept, visit func([]*kept) error) error {
	for len(entries) > 0 {
		n := slices.IndexFunc(entries, func(k *kept) bool { return k.end != entries[0].end })
		if n < 0 {
			n = len(entries)
		}
		if err := visit(entries[:n]); err != nil {
			return err
		}
		entries = entries[n:]
	}
	return nil
}

// pickSelected returns the profiles that s selects, oldest first. It first looks for the profiles of a build, which are
// kept longer. For profiles on disk it keeps only the processes that s needs.
func (p *Page) pickSelected(s selection) (picked []*kept) {
	if s.build != "" {
		if picked = p.changes.entries(s); len(picked) > 0 {
			return picked
		}
	}
	s = p.newest(s)
	p.rounds(s, math.MaxInt64).eachRound(s, func(entries []*kept) error {
		for _, k := range entries {
			if s.build != "" && !slices.ContainsFunc(k.Processes, s.ofBuild) {
				continue
			}
			if k.stored != nil {
				k.Processes = s.needed(k.Processes)
			}
			picked = append(picked, k)
		}
		return nil
	})
	return picked
}

// ofBuild reports whether a process ran the build that s names.
func (s selection) ofBuild(p Process) bool { return p.Program == s.exe && p.Build == s.build }

// needed returns the processes that kept.countsOf needs.
func (s selection) needed(all []Process) (out []Process) {
	for _, p := range all {
		of := (s.comm != "" || s.pid != 0) && (s.comm == "" || s.comm == p.Comm) && (s.pid == 0 || s.pid == p.PID)
		if s.build != "" && s.ofBuild(p) || s.build == "" && of {
			out = append(out, p)
		}
	}
	return out
}

// withPicked passes the profiles that s selects to build. It leaves out files on disk that turn out to be damaged.
func withPicked[T any](p *Page, s selection, build func([]*kept) (T, error)) (out T, err error) {
	for {
		picked := p.pickSelected(s)
		if len(picked) == 0 {
			return out, errGone
		}
		if out, err = build(picked); !errors.Is(err, archive.ErrGone) {
			return out, err
		}
	}
}
