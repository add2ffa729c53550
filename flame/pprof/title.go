package pprof

import (
	"path"
	"slices"
	"strings"

	"github.com/google/pprof/profile"
)

// SetTitle makes go tool pprof show "File: name" for p. pprof shows the file of the first mapping, by default the
// mapping of the first sample's leaf. SetTitle moves the mapping of a file with this name to the front or, if there is
// none, inserts a mapping that no location refers to. It replaces slashes and colons in name by underscores: pprof
// shows only the part after the last slash, and hides names that look like URLs.
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
