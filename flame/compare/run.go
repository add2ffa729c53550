package compare

import (
	"regexp"

	"github.com/google/pprof/profile"

	"github.com/headwater/headwater/flame/export"
	"github.com/headwater/headwater/flame/pprof"
	"github.com/headwater/headwater/flame/tree"
)

// Run holds the values of the functions in one profile: a run of a program, or an interval of a service.
type Run struct {
	functions map[key]amount
	all       amount
	unit      string
	of        string // type of values, such as cpu; "" if unknown
	seconds   float64
	due, lost uint64 // samples of the host during the profile; 0 if unknown

	incomplete amount // of stacks that end at a remark such as [incomplete: no_row]
	nameless   amount // of methods that were not read in time, see isUnread
	total      bool   // functions include their callees
}

// NewRun counts the samples of a profile: of the functions themselves or, with total, including their callees.
func NewRun(p *profile.Profile, total bool) (*Run, error) {
	index, err := p.SampleIndexByName("")
	if err != nil {
		return nil, err
	}
	scale := 1.0
	r := &Run{
		functions: map[key]amount{}, unit: p.SampleType[index].Unit, seconds: float64(p.DurationNanos) * 1e-9, total: total,
	}
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
		r.all = r.all.plusAmount(amountOf(f.OfSelf, scale))
		of := f.OfSelf
		if total {
			of = f.OfTotal
		}
		if isUnread(&f) {
			r.nameless = r.nameless.plusAmount(amountOf(of, scale))
			continue
		}
		if tree.IsRemark(f.Name) {
			r.incomplete = r.incomplete.plusAmount(amountOf(f.OfTotal, scale))
			continue
		}
		if of.Value > 0 {
			k := keyOf(&f)
			r.functions[k] = r.functions[k].plusAmount(amountOf(of, scale))
		}
	}
	r.due, r.lost = pprof.LostOf(p)
	return r, nil
}

// Idle returns a run of the given duration in which a program had no sample. unit is the unit of the other runs of its
// side.
func Idle(seconds float64, unit string) *Run { return &Run{unit: unit, seconds: seconds} }

// SetLost sets the number of samples of the host that were due during the run, and the number of lost samples.
func (r *Run) SetLost(due, lost uint64) { r.due, r.lost = due, lost }

// Samples returns the number of samples of the run.
func (r *Run) Samples() float64 { return r.all.samples }

// Functions returns the number of functions with samples. Each takes some 170 bytes of memory.
func (r *Run) Functions() int { return len(r.functions) }

// isUnread reports whether a function stands for methods of Java that were not read in time: such frames have HotSpot's
// name of its interpreter. How many there are depends on the load of the host.
func isUnread(f *export.Function) bool {
	return f.Name == "Interpreter" && tree.CodeOf(f.Where()) == tree.RuntimeCode
}

// key identifies a function in two builds of a program: by name, as addresses and build IDs differ.
type key struct{ name, binary string }

// noSymbol matches the names of frames without a symbol. They hold an address, which differs in another build.
var noSymbol = regexp.MustCompile(`\+0x[0-9a-f]+$|^0x[0-9a-f]+$`)

// keyOf returns the key of a function. All functions of a file without a name share one key. A function of a language
// has the same key whether its runtime interprets or compiles it, and in every version of the runtime.
func keyOf(f *export.Function) key {
	k := key{f.Name, tree.CodeOf(f.Where())}
	if noSymbol.MatchString(f.Name) {
		k.name = tree.WithoutName
	}
	return k
}

// interrupt matches the kernel's entry functions of interrupts.
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
