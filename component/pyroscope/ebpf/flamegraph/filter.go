package flamegraph

import (
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strconv"

	"github.com/google/pprof/profile"

	"github.com/headwater/headwater/ebpf/kind"
)

// kindCPU is the kind of profiles that selections without one mean.
const kindCPU = "cpu"

// maxPattern is how long a regular expression may be.
const maxPattern = 1000

// filter is the part of a selection that reading the samples decides.
type filter struct {
	thread        string // thread's name or number, by the labels thread_name and thread_id; "" for all
	kind          string // kind of profiles, such as cpu; "" for kindCPU
	focus, ignore string // regular expressions: samples with, and those without such a function; "" for all
}

// parseFilter reads the parameters thread, kind, focus and ignore.
func parseFilter(v url.Values) (filter, error) {
	f := filter{thread: v.Get("thread"), kind: v.Get("kind"), focus: v.Get("focus"), ignore: v.Get("ignore")}
	if f.kind == kindCPU {
		f.kind = "" // one selection, one address
	}
	return f, f.check()
}

// check says what is wrong with the regular expressions.
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

// kindName returns the kind of profiles.
func (f filter) kindName() string {
	if f.kind == "" {
		return kindCPU
	}
	return f.kind
}

// perSample reports whether a part of each process's samples is selected.
func (f filter) perSample() bool { return f.thread != "" || f.focus != "" || f.ignore != "" }

// isPeriodic reports whether each sample stands for the period of its profile. A wait has its own time, memory its own
// size, and a sample of a probe may have the value of an argument.
func (f filter) isPeriodic() bool {
	k, ok := kind.ByName(f.kindName())
	return ok && k < kind.Count && k.IsPeriodic()
}

// apply removes the other samples.
func (f filter) apply(p *profile.Profile) {
	if f.thread != "" {
		p.Sample = slices.DeleteFunc(p.Sample, func(s *profile.Sample) bool { return !isOfThread(s, f.thread) })
	}
	if f.focus == "" && f.ignore == "" {
		return
	}
	var focus, ignore *regexp.Regexp
	if f.focus != "" {
		focus = regexp.MustCompile(f.focus) // check has compiled it
	}
	if f.ignore != "" {
		ignore = regexp.MustCompile(f.ignore)
	}
	names := map[uint64]string{}
	for _, fn := range p.Function {
		names[fn.ID] = fn.Name
		fn.Name = flameName(fn.Name) // people search for what they see
	}
	p.FilterSamplesByName(focus, ignore, nil, nil)
	for _, fn := range p.Function {
		fn.Name = names[fn.ID]
	}
}

// isOfThread reports whether a sample is of a thread of that name or number.
func isOfThread(s *profile.Sample, thread string) bool {
	if slices.Contains(s.Label["thread_name"], thread) || slices.Contains(s.Label["thread_id"], thread) {
		return true
	}
	id, err := strconv.ParseInt(thread, 10, 64)
	return err == nil && slices.Contains(s.NumLabel["thread_id"], id)
}
