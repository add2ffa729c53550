package server

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"sync"

	"github.com/google/pprof/profile"

	"github.com/headwater/headwater/flame/tree"
)

// foldedProfile is a folded profile in a viewCache.
type foldedProfile struct{ *tree.Folded }

// size implements sized.
func (f foldedProfile) size() int64 { return f.Size() + 512 }

// foldProfile returns a folded profile. Profiles in memory are folded when they are added, as long as there is room.
// fold reads and folds all other profiles on demand, and caches them while they are in use, since consecutive flame
// graphs have almost the same profiles.
func (p *Page) foldProfile(k *kept) (*tree.Folded, error) {
	if f := k.folded.Load(); f != nil {
		return f, nil
	}
	key := fmt.Sprintf("%s %s %d %d %d", k.target.id, k.kindName(), k.start, k.end, k.dataSize())
	f, err := p.folds.getView(context.Background(), key, func() (foldedProfile, error) {
		data, err := k.profileData()
		if err != nil {
			return foldedProfile{}, err
		}
		read, err := profile.ParseData(data)
		if err != nil {
			return foldedProfile{}, fmt.Errorf("reading a kept profile of %s: %w", k.target.name, err)
		}
		f, err := tree.Fold(read, p.shown.shownName)
		return foldedProfile{f}, err
	})
	return f.Folded, err
}

// choice converts a selection to the choice of samples within profiles of its time, target and kind.
func (s selection) choice() (c tree.Choice) {
	if s.comm != "" || s.pid != 0 || s.thread != "" {
		comm := flameName(s.comm)
		c.Sample = func(labels *profile.Sample, outermost string) bool {
			return (s.pid == 0 || hasPID(labels, s.pid)) && (s.thread == "" || isOfThread(labels, s.thread)) &&
				(s.comm == "" || outermost == comm || slices.Contains(labels.Label["comm"], s.comm))
		}
	}
	if s.build != "" {
		of := build{s.exe, s.build}
		c.With = append(c.With, func(f tree.Frame) bool {
			return of.isMappedAt(&profile.Mapping{File: f.Binary, BuildID: f.BuildID})
		})
	}
	if s.focus != "" {
		c.With = append(c.With, matching(s.focus))
	}
	if s.ignore != "" {
		c.Without = matching(s.ignore)
	}
	if s.root != "" {
		c.Root = func(labels *profile.Sample) string { return s.root + "=" + labelValue(labels, s.root) }
	}
	return c
}

// matching returns a function that matches a frame's function, source file or binary. filter.check has already compiled
// the pattern.
func matching(pattern string) func(tree.Frame) bool {
	re := regexp.MustCompile(pattern)
	return func(f tree.Frame) bool {
		return re.MatchString(f.Name) || re.MatchString(f.File) || re.MatchString(f.Binary)
	}
}

// maxShownNames bounds the names in shownNames, which take about 100 bytes each.
const maxShownNames = 20_000

// shownNames caches the flame graph names of functions with mangled names: consecutive profiles have nearly the same
// functions. It is safe for concurrent use.
type shownNames struct {
	mu    sync.Mutex
	names map[string]string
}

// shownName returns flameName(name).
func (n *shownNames) shownName(name string) string {
	if len(name) < 2 || name[0] != '_' && len(name) <= maxShownName {
		return name
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	shown, ok := n.names[name]
	if !ok {
		if n.names == nil || len(n.names) >= maxShownNames {
			n.names = map[string]string{}
		}
		shown = flameName(name)
		n.names[name] = shown
	}
	return shown
}
