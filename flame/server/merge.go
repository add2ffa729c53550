package server

import (
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/google/pprof/profile"

	"github.com/headwater/headwater/flame/pprof"
)

// Limits of one merged profile. They bound the memory of a view, and the work of the browser: pprof's flame graph page
// contains every distinct stack.
const (
	maxMergedSamples = 100_000  // distinct stacks
	maxMergedBytes   = 16 << 20 // compressed bytes read
	mergeAtOnce      = 8        // profiles decoded at a time
)

// errNoSamples says that a selection has no samples.
var errNoSamples = errors.New("no samples in this selection")

// merged is the sum of some profiles of the history.
type merged struct {
	profile *profile.Profile
	used    int // profiles in the sum: the newest ones
	of      int // profiles asked for
}

// merge adds up the samples of the profiles that match s, newest first, until the sum would have more than maxSamples
// distinct stacks or maxMergedBytes have been read. If there is no such sample, it returns errNoSamples.
func merge(entries []*kept, s selection, maxSamples int) (merged, error) {
	sum := merged{of: len(entries)}
	var bytes int
	for len(entries) > sum.used && bytes < maxMergedBytes {
		rest := entries[:len(entries)-sum.used]
		chunk := rest[max(0, len(rest)-mergeAtOnce):]
		parts, err := decode(chunk, s)
		if err != nil {
			return merged{}, err
		}
		if sum.profile != nil {
			parts = append(parts, sum.profile)
		}
		next, err := profile.Merge(parts)
		if err != nil {
			return merged{}, fmt.Errorf("merging %d profiles: %w", len(parts), err)
		}
		if sum.profile != nil && len(next.Sample) > maxSamples {
			break
		}
		addLost(next, parts)
		sum.profile = next
		sum.used += len(chunk)
		for _, k := range chunk {
			bytes += k.dataSize()
		}
	}
	if sum.profile == nil || len(sum.profile.Sample) == 0 {
		return merged{}, errNoSamples
	}
	return sum, nil
}

// addLost writes the number of lost samples of all parts into the sum. (Merging drops duplicate comments.)
func addLost(sum *profile.Profile, parts []*profile.Profile) {
	var due, lost uint64
	for _, p := range parts {
		ofDue, ofLost := pprof.LostOf(p)
		due, lost = due+ofDue, lost+ofLost
	}
	if due > 0 {
		pprof.SetLost(sum, due, lost)
	}
}

// decode parses the profiles and keeps the samples of the process that s names.
func decode(entries []*kept, s selection) ([]*profile.Profile, error) {
	parts := make([]*profile.Profile, 0, len(entries)+1)
	for _, k := range entries {
		data, err := k.profileData()
		if err != nil {
			return nil, err
		}
		p, err := profile.ParseData(data)
		if err != nil {
			return nil, fmt.Errorf("reading a kept profile of %s: %w", k.target.name, err)
		}
		if s.build != "" {
			build{s.exe, s.build}.keepOnly(p)
		}
		if s.comm != "" || s.pid != 0 {
			p.Sample = slices.DeleteFunc(p.Sample, func(sample *profile.Sample) bool {
				return !s.matches(sample)
			})
		}
		s.filter.apply(p)
		parts = append(parts, p)
	}
	return parts, nil
}

// matches reports whether a sample belongs to the selected process. The labels comm and pid, or the root frame,
// identify the process of a sample.
func (s selection) matches(sample *profile.Sample) bool {
	if s.pid != 0 && !hasPID(sample, s.pid) {
		return false
	}
	return s.comm == "" || slices.Contains(sample.Label["comm"], s.comm) || rootFrame(sample) == s.comm
}

func hasPID(sample *profile.Sample, pid uint32) bool {
	return slices.Contains(sample.NumLabel["pid"], int64(pid)) ||
		slices.Contains(sample.Label["pid"], strconv.FormatUint(uint64(pid), 10))
}

// addRoots makes "key=value" the outermost frame of every sample, according to its label, so that a flame graph shows
// the label's values next to each other. (pprof has this as -tagroot, but its web interface does not offer that
// option.)
func addRoots(p *profile.Profile, key string) {
	var locationID, functionID uint64
	for _, l := range p.Location {
		locationID = max(locationID, l.ID)
	}
	for _, f := range p.Function {
		functionID = max(functionID, f.ID)
	}
	roots := make(map[string]*profile.Location)
	for _, sample := range p.Sample {
		name := key + "=" + labelValue(sample, key)
		root := roots[name]
		if root == nil {
			locationID, functionID = locationID+1, functionID+1
			f := &profile.Function{ID: functionID, Name: name, SystemName: name}
			root = &profile.Location{ID: locationID, Line: []profile.Line{{Function: f}}}
			p.Function, p.Location = append(p.Function, f), append(p.Location, root)
			roots[name] = root
		}
		sample.Location = append(slices.Clip(sample.Location), root) // the array may be shared with the next sample
	}
}

func labelValue(sample *profile.Sample, key string) string {
	if values := sample.Label[key]; len(values) > 0 {
		return values[0]
	}
	if values := sample.NumLabel[key]; len(values) > 0 {
		return strconv.FormatInt(values[0], 10)
	}
	return "(none)"
}

// rootFrame returns the name of a sample's outermost function.
func rootFrame(sample *profile.Sample) string {
	if len(sample.Location) == 0 {
		return ""
	}
	lines := sample.Location[len(sample.Location)-1].Line
	if len(lines) == 0 || lines[len(lines)-1].Function == nil {
		return ""
	}
	return lines[len(lines)-1].Function.Name
}
