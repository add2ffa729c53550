package flamegraph

import (
	"errors"
	"math"
	"slices"

	"github.com/headwater/headwater/component/pyroscope/ebpf/flamegraph/archive"
	"github.com/headwater/headwater/ebpf/kind"
)

// pick returns the profiles of a history that s means, oldest first.
func (s selection) pick(entries []*kept) []*kept {
	var picked []*kept
	for _, k := range entries {
		target := s.target == allTargets || s.target == k.target.id || s.target == k.target.service
		if k.end > s.from && k.end <= s.to && target && k.kind() == s.kindName() {
			picked = append(picked, k)
		}
	}
	return picked
}

// newestEnd returns when the newest round ended, in ms since 1970; 0 if none is kept.
func (p *Page) newestEnd() int64 {
	if end := newestEnd(p.history.all()); end > 0 {
		return end
	}
	if a := p.disk.Load().reader(); a != nil {
		return a.Usage().Last.End
	}
	return 0
}

// newestEnd returns when the newest of some profiles ended; 0 without any.
func newestEnd(entries []*kept) int64 {
	if len(entries) == 0 {
		return 0
	}
	return entries[len(entries)-1].end
}

// rounds is what is kept of a time: rounds on disk, and after them profiles in memory.
type rounds struct {
	holder *archive.Archive[Profile]
	onDisk []archive.Round
	memory []*kept
}

// rounds returns what is kept of the time of s. The oldest round in memory may be there in part, so it comes from the
// disk where that has it. Files of at most maxBytes are read, the newest ones.
func (p *Page) rounds(s selection, maxBytes int64) (r rounds) {
	r.memory = p.history.all()
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

// newest returns s without what comes before the newest round of it, if profiles of its kind are snapshots: one is
// shown, not the sum of several.
func (p *Page) newest(s selection) selection {
	k, _ := kind.ByName(s.kindName()) // it is CPU time if nobody knows it
	if !k.IsSnapshot() {
		return s
	}
	_ = p.rounds(s, math.MaxInt64).each(s, func(entries []*kept) error { // visit has no errors
		s.from = entries[0].end - 1
		return nil
	})
	return s
}

// each passes the profiles that s means, by round, oldest first. Of those on disk, one round is read at a time. Rounds
// that cannot be read are left out.
func (r rounds) each(s selection, visit func([]*kept) error) error {
	targets := map[string]target{} // one copy of each
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
		if entries = s.pick(entries); len(entries) == 0 {
			continue
		}
		if err := visit(entries); err != nil {
			return err
		}
	}
	return eachRound(s.pick(r.memory), visit)
}

// eachRound passes profiles by round.
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

// pick returns the profiles that s means, oldest first: those of a build are kept longer. Those on disk have of their
// processes what s needs to count them.
func (p *Page) pick(s selection) (picked []*kept) {
	if s.build != "" {
		if picked = p.changes.entries(s); len(picked) > 0 {
			return picked
		}
	}
	s = p.newest(s)
	p.rounds(s, math.MaxInt64).each(s, func(entries []*kept) error {
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

// needed returns the processes that kept.of looks at.
func (s selection) needed(all []Process) (out []Process) {
	for _, p := range all {
		of := (s.comm != "" || s.pid != 0) && (s.comm == "" || s.comm == p.Comm) && (s.pid == 0 || s.pid == p.PID)
		if s.build != "" && s.ofBuild(p) || s.build == "" && of {
			out = append(out, p)
		}
	}
	return out
}

// withPicked passes what s means to build. What turns out to be damaged on disk is left out.
func withPicked[T any](p *Page, s selection, build func([]*kept) (T, error)) (out T, err error) {
	for {
		picked := p.pick(s)
		if len(picked) == 0 {
			return out, errGone
		}
		if out, err = build(picked); !errors.Is(err, archive.ErrGone) {
			return out, err
		}
	}
}
