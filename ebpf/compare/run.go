package compare

import (
	"regexp"

	"github.com/google/pprof/profile"

	"github.com/headwater/headwater/ebpf/export"
	"github.com/headwater/headwater/ebpf/pprof"
	"github.com/headwater/headwater/ebpf/trie"
)

// Run is what functions had in one profile: of a run of a program, or of an interval of a service.
// It holds no reference to the profile.
type Run struct {
	functions map[key]amount
	all       amount
	unit      string
	of        string // type of values, such as cpu; "" if it is not known
	seconds   float64
	due, lost uint64 // samples of the host meanwhile, 0 if not known
}

// NewRun counts the samples of a profile: of functions themselves or, with total, with what they call.
func NewRun(p *profile.Profile, total bool) (*Run, error) {
	index, err := p.SampleIndexByName("")
	if err != nil {
		return nil, err
	}
	scale := 1.0
	r := &Run{functions: map[key]amount{}, unit: p.SampleType[index].Unit, seconds: float64(p.DurationNanos) * 1e-9}
	r.of = p.SampleType[index].Type
	if r.unit == "nanoseconds" {
		r.unit, scale = "seconds", 1e-9
	}
	counted := withoutInterrupts(p)
	functions, _, err := export.Functions(counted)
	if err != nil {
		return nil, err
	}
	for _, f := range functions {
		r.all = r.all.plus(amountOf(f.OfSelf, scale))
		of := f.OfSelf
		if total {
			of = f.OfTotal
		}
		if of.Value > 0 {
			k := keyOf(&f)
			r.functions[k] = r.functions[k].plus(amountOf(of, scale))
		}
	}
	r.due, r.lost = pprof.LostOf(p)
	return r, nil
}

// Idle returns a run of a number of seconds in which a program had no sample. Values of other runs
// of its side are in the unit.
func Idle(seconds float64, unit string) *Run { return &Run{unit: unit, seconds: seconds} }

// SetLost says how many samples of the host were due during the run, and how many of them were lost.
func (r *Run) SetLost(due, lost uint64) { r.due, r.lost = due, lost }

// Samples returns how many samples the run has.
func (r *Run) Samples() float64 { return r.all.samples }

// Functions returns how many functions have samples: a measure of the memory that r takes, some 170
// bytes each.
func (r *Run) Functions() int { return len(r.functions) }

// key identifies a function in two builds of a program: by name, as addresses and build IDs differ.
type key struct{ name, binary string }

// noSymbol are names of frames that have none: they hold an address, which says nothing about another build.
var noSymbol = regexp.MustCompile(`\+0x[0-9a-f]+$|^0x[0-9a-f]+$`)

// keyOf is the key of a function. All functions of a file that have no name are one; a function of a language is the
// same whether its runtime interprets or compiles it, and in another version of the runtime.
func keyOf(f *export.Function) key {
	k := key{f.Name, trie.CodeOf(f.Where())}
	if noSymbol.MatchString(f.Name) {
		k.name = trie.WithoutName
	}
	return k
}

// interrupt are functions of the kernel that an interrupt begins with.
var interrupt = regexp.MustCompile(`^(asm_)?(sysvec_|common_interrupt)|^(handle|__do)_softirqs?$` +
	`|^(el[01].*_irq|gic_handle_irq)`)

// withoutInterrupts returns a profile without the samples that were taken in interrupts.
func withoutInterrupts(p *profile.Profile) *profile.Profile {
	in := map[*profile.Location]bool{}
	for _, l := range p.Location {
		for _, line := range l.Line {
			if line.Function != nil && interrupt.MatchString(line.Function.Name) {
				in[l] = true
			}
		}
	}
	if len(in) == 0 {
		return p
	}
	out := &profile.Profile{
		SampleType: p.SampleType, DefaultSampleType: p.DefaultSampleType, PeriodType: p.PeriodType, Period: p.Period,
	}
	for _, s := range p.Sample {
		interrupted := false
		for _, l := range s.Location {
			interrupted = interrupted || in[l]
		}
		if !interrupted {
			out.Sample = append(out.Sample, s)
		}
	}
	return out
}
