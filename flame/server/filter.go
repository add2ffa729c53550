package server

import (
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strconv"

	"github.com/google/pprof/profile"

	"github.com/headwater/headwater/flame/kind"
)

// kindCPU is the kind of profiles for selections that name no kind.
const kindCPU = "cpu"

// maxPattern is the maximum length of a regular expression.
const maxPattern = 1000

// filter is the part of a selection that can only be applied by reading samples.
type filter struct {
	thread        string // thread's name or number, by the labels thread_name and thread_id; "" for all
	kind          string // kind of profiles, such as cpu; "" for kindCPU
	focus, ignore string // regular expressions: samples with and without such a function; "" for all
}

// parseFilter reads the parameters thread, kind, focus and ignore.
func parseFilter(v url.Values) (filter, error) {
	f := filter{thread: v.Get("thread"), kind: v.Get("kind"), focus: v.Get("focus"), ignore: v.Get("ignore")}
	if f.kind == kindCPU {
		f.kind = "" // give each selection only one address
	}
	return f, f.check()
}

// check returns an error about an invalid regular expression.
func (f filter) check() error {
	for name, pattern := range map[string]string{"focus": f.focus, "ignore": f.ignore} {
		if len(pattern) > maxPattern {
			return fmt.Errorf("%s has %d bytes, more than %d", name, len(pattern), maxPattern)
		}
		if _, err := regexp.Compile(pattern); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// addTo is the reverse of parseFilter.
func (f filter) addTo(v url.Values) {
	for name, value := range map[string]string{"thread": f.thread, "kind": f.kind, "focus": f.focus, "ignore": f.ignore} {
		if value != "" {
			v.Set(name, value)
		}
	}
}

// kindName returns the name of the kind of profiles.
func (f filter) kindName() string {
	if f.kind == "" {
		return kindCPU
	}
	return f.kind
}

// perSample reports whether the filter can select only a part of a process's samples.
func (f filter) perSample() bool { return f.thread != "" || f.focus != "" || f.ignore != "" }

// isPeriodic reports whether each sample has the period of its profile as its value. In contrast, a wait has its own
// time, memory has its own size, and a sample of a probe may have the value of an argument.
func (f filter) isPeriodic() bool {
	k, ok := kind.ByName(f.kindName())
	return ok && k < kind.Count && k.IsPeriodic()
}

// apply removes the samples that are not selected.
func (f filter) apply(p *profile.Profile) {
	if f.thread != "" {
		p.Sample = slices.DeleteFunc(p.Sample, func(s *profile.Sample) bool { return !isOfThread(s, f.thread) })
	}
	if f.focus == "" && f.ignore == "" {
		return
	}
	var focus, ignore *regexp.Regexp
	if f.focus != "" {
		focus = regexp.MustCompile(f.focus) // check has already compiled it
	}
	if f.ignore != "" {
		ignore = regexp.MustCompile(f.ignore)
	}
	names := map[uint64]string{}
	for _, fn := range p.Function {
		names[fn.ID] = fn.Name
		fn.Name = flameName(fn.Name) // users search for the names they see
	}
	p.FilterSamplesByName(focus, ignore, nil, nil)
	for _, fn := range p.Function {
		fn.Name = names[fn.ID]
	}
}

// isOfThread reports whether a sample is from a thread with that name or number.
func isOfThread(s *profile.Sample, thread string) bool {
	if slices.Contains(s.Label["thread_name"], thread) || slices.Contains(s.Label["thread_id"], thread) {
		return true
	}
	id, err := strconv.ParseInt(thread, 10, 64)
	return err == nil && slices.Contains(s.NumLabel["thread_id"], id)
}
