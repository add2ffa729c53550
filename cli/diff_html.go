package cli

import (
	"errors"
	"fmt"
	"strings"

	"github.com/google/pprof/profile"

	"github.com/headwater/headwater/cli/internal/outfile"
	"github.com/headwater/headwater/flame/compare"
	"github.com/headwater/headwater/flame/view"
)

// write writes the flame graph.
func (f *diffFlags) write(r *compare.Report, base, after []*profile.Profile, names []string) (err error) {
	flame := compare.NewFlame(r, nil)
	for _, p := range base {
		err = errors.Join(err, flame.AddBase(p))
	}
	for _, p := range after {
		err = errors.Join(err, flame.AddNew(p))
	}
	if err != nil {
		return err
	}
	file, err := outfile.Create(f.output)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Discard()) }()
	about := view.About{Title: names[0] + " and " + names[1], Notes: []string{
		sideNote("before", r, &r.Base), sideNote("after", r, &r.New), conclusion(r, f),
	}}
	if err := view.Write(file, about, flame.Tree(), nil); err != nil {
		return err
	}
	return file.Keep()
}

// sideNote describes a side of the comparison.
func sideNote(name string, r *compare.Report, s *compare.Side) string {
	parts := []string{fmt.Sprintf("%s: %d samples", name, s.Samples), fmt.Sprintf("%.6g %s", s.Value, r.Unit)}
	for _, text := range []string{strings.TrimSpace(didOf(s) + tookOf(s)), missingOf(s)} {
		if text != "" {
			parts = append(parts, text)
		}
	}
	return strings.Join(parts, ", ")
}
