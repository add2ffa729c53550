package pprof

import (
	"path"
	"slices"
	"strings"

	"github.com/google/pprof/profile"
)

// SetTitle makes go tool pprof say what p is of: "File: name". It shows the file of the first mapping, which is the
// one that happens to be of the first sample's leaf. The mapping of a file of that name becomes the first; without one
// a mapping that no location refers to does. Slashes and colons in name become underscores: pprof shows what follows
// the last slash, and nothing of what looks like a URL.
func SetTitle(p *profile.Profile, name string) {
	name = strings.NewReplacer("/", "_", ":", "_").Replace(cleanText(name, maxText))
	at := slices.IndexFunc(p.Mapping, func(m *profile.Mapping) bool { return path.Base(m.File) == name })
	if at >= 0 {
		m := p.Mapping[at]
		p.Mapping = slices.Insert(slices.Delete(p.Mapping, at, at+1), 0, m)
		return
	}
	title := &profile.Mapping{ID: 1, File: name, HasFunctions: true}
	for _, m := range p.Mapping {
		title.ID = max(title.ID, m.ID+1)
	}
	p.Mapping = slices.Insert(p.Mapping, 0, title)
}
