package digest

import (
	"errors"
	"fmt"
	"path"
	"strings"
	"time"

	"github.com/google/pprof/profile"

	"github.com/headwater/headwater/ebpf/record"
	"github.com/headwater/headwater/flame/export"
)

var errNoSamples = errors.New("the profile has no samples")

// Comments in profiles that this tool has recorded.
const (
	ownComment     = "headwater "
	unnamedComment = "headwater unnamed: " // followed by a binary, ": ", and why it has no names
)

// keptReasons is the maximum number of binaries whose reasons a profile keeps.
const keptReasons = 5

// KeepReasons writes the reasons why binaries have no names into the profile of a recording, so that its file contains
// them. explain returns the reason for binary i.
func KeepReasons(r *record.Recording, explain func(i int) string) {
	if r.Profile == nil {
		return
	}
	const small = 0.001 // of all frames
	for i, u := range r.Unnamed[:min(len(r.Unnamed), keptReasons)] {
		if float64(u.Frames) >= small*float64(r.Frames) {
			r.Profile.Comments = append(r.Profile.Comments, unnamedComment+path.Base(u.File)+": "+explain(i))
		}
	}
}

// reasonsOf returns the reasons that KeepReasons wrote, by binary.
func reasonsOf(p *profile.Profile) map[string]string {
	out := map[string]string{}
	for _, c := range p.Comments {
		if text, ok := strings.CutPrefix(c, unnamedComment); ok {
			if binary, why, ok := strings.Cut(text, ": "); ok {
				out[binary] = why
			}
		}
	}
	return out
}

// isMarked reports whether this tool made the profile: then incomplete stacks are marked.
func isMarked(p *profile.Profile) bool {
	for _, c := range p.Comments {
		if strings.HasPrefix(c, ownComment) {
			return true
		}
	}
	return false
}

// about describes the subject of a profile.
func about(p *profile.Profile) string {
	text := export.Title(p)
	if p.DurationNanos > 0 {
		text += fmt.Sprintf(", %.1f s", time.Duration(p.DurationNanos).Seconds())
	}
	if p.TimeNanos > 0 {
		text += ", begun " + time.Unix(0, p.TimeNanos).UTC().Format(time.RFC3339)
	}
	return text
}

// binaryName returns the short name of a binary.
func binaryName(file string) string {
	if file == "" {
		return "[no binary]"
	}
	return path.Base(file)
}
