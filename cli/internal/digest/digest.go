// Package digest summarizes a profile in plain text of a bounded size: for chats, issues and language models. The text
// always says how complete the profile is.
package digest

import (
	"cmp"
	"maps"
	"slices"

	"github.com/google/pprof/profile"

	"github.com/headwater/headwater/flame/export"
	"github.com/headwater/headwater/flame/pprof"
)

// Entry is a function, process or binary with its values in a profile.
type Entry struct {
	Name   string
	Binary string // of a function
	Self   int64  // value of the stacks that end in it
	Total  int64  // value of the stacks that contain it
}

// Digest summarizes a profile. It holds no reference to the profile.
type Digest struct {
	About string // what was profiled, when and for how long

	Of     string // type of all values, such as cpu
	Unit   string // of all values
	Total  int64  // value of all samples
	Period int64  // value of one sample, 0 if unknown

	Functions []Entry // most self first
	Binaries  []Entry // by the innermost frame, most self first
	Processes []Entry // empty if the profile does not name processes

	Complete Completeness

	stacks []export.Stack
}

// Completeness describes the missing parts of a profile.
type Completeness struct {
	Samples   int64            // -1 if unknown
	Due, Lost uint64           // samples of the host; Due is 0 if unknown
	Marked    bool             // incomplete stacks are marked
	Broken    int64            // value of the incomplete stacks
	Reasons   map[string]int64 // value of the incomplete stacks, by reason
	Unnamed   int64            // value of the stacks whose innermost frame has no name
	Binaries  []Entry          // binaries of the unnamed frames, most value first
	Why       map[string]string
}

// Of digests a profile. It returns an error if the profile has no samples.
func Of(p *profile.Profile) (*Digest, error) {
	stacks, of, period, err := export.Stacks(p)
	if err != nil {
		return nil, err
	}
	if len(stacks) == 0 {
		return nil, errNoSamples
	}
	d := &Digest{About: about(p), Of: of.Type, Unit: of.Unit, Period: period, stacks: stacks}
	d.Complete = Completeness{Samples: -1, Reasons: map[string]int64{}, Why: reasonsOf(p), Marked: isMarked(p)}
	d.Complete.Due, d.Complete.Lost = pprof.LostOf(p)
	functions, binaries, processes, unnamed := table{}, table{}, table{}, table{}
	var samples int64
	for _, s := range stacks {
		d.Total += s.Value
		samples += s.Samples
		leaf := s.Frames[len(s.Frames)-1]
		functions.addStack(s)
		binaries.count(Entry{Name: binaryName(leaf.Binary)}, s.Value, s.Value)
		if s.Process != "" {
			processes.count(Entry{Name: s.Process}, s.Value, s.Value)
		}
		if !leaf.Named() {
			d.Complete.Unnamed += s.Value
			unnamed.count(Entry{Name: binaryName(leaf.Binary)}, s.Value, s.Value)
		}
		if s.Missing != "" {
			d.Complete.Marked = true
			d.Complete.Broken += s.Value
			d.Complete.Reasons[s.Missing] += s.Value
		}
	}
	d.Functions, d.Binaries, d.Processes = functions.sorted(), binaries.sorted(), processes.sorted()
	d.Complete.Binaries = unnamed.sorted()
	switch {
	case samples > 0:
		d.Complete.Samples = samples
	case of.Unit == "count":
		d.Complete.Samples = d.Total
	}
	return d, nil
}

// table adds up values.
type table map[Entry]*Entry

// count adds values to an entry.
func (t table) count(of Entry, self, total int64) {
	e := t[of]
	if e == nil {
		e = &Entry{Name: of.Name, Binary: of.Binary}
		t[of] = e
	}
	e.Self += self
	e.Total += total
}

// addStack counts each function of a stack once.
func (t table) addStack(s export.Stack) {
	seen := map[export.Frame]bool{}
	for i, f := range s.Frames {
		self, total := int64(0), s.Value
		if i == len(s.Frames)-1 {
			self = s.Value
		}
		if seen[f] {
			total = 0
		}
		seen[f] = true
		t.count(Entry{Name: f.Name, Binary: f.Binary}, self, total)
	}
}

// sorted returns the entries, most self first, then most total, then by name.
func (t table) sorted() []Entry {
	var out []Entry
	for e := range maps.Values(t) {
		out = append(out, *e)
	}
	slices.SortFunc(out, func(a, b Entry) int {
		return cmp.Or(cmp.Compare(b.Self, a.Self), cmp.Compare(b.Total, a.Total), cmp.Compare(a.Name, b.Name),
			cmp.Compare(a.Binary, b.Binary))
	})
	return out
}

// byTotal returns entries, most total first.
func byTotal(entries []Entry) []Entry {
	out := slices.Clone(entries)
	slices.SortStableFunc(out, func(a, b Entry) int { return cmp.Compare(b.Total, a.Total) })
	return out
}
