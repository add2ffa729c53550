package export

import (
	"cmp"
	"path"
	"slices"

	"github.com/google/pprof/profile"

	"github.com/headwater/headwater/flame/pprof"
	"github.com/headwater/headwater/flame/tree"
)

// Function is a function with its values in a profile.
type Function struct {
	Name   string `json:"name"`
	Binary string `json:"binary,omitempty"` // file with its code, see trie.CodeOf; "" if it is no code
	Self   int64  `json:"self"`             // value of the samples that end in it
	Total  int64  `json:"total"`            // value of the samples with the function in their stack

	OfSelf  Amount `json:"-"`
	OfTotal Amount `json:"-"`
}

// Amount is a sum of samples, with figures for its error.
type Amount struct {
	Value   float64
	Samples float64 // number of samples taken; if unknown, a stack counts as one sample
	Squares float64 // sum of the squares of their values, or an upper bound if the values are unknown
}

// Add adds b.
func (a *Amount) Add(b Amount) {
	a.Value, a.Samples, a.Squares = a.Value+b.Value, a.Samples+b.Samples, a.Squares+b.Squares
}

// Functions returns the functions of a profile, largest self first, and the value of all samples.
func Functions(p *profile.Profile) (functions []Function, total int64, err error) {
	s, err := newStacks(p)
	if err != nil {
		return nil, 0, err
	}
	c := functionCounts{stacks: s, byKey: map[functionKey]int{}, of: map[*profile.Location][]int{}}
	for _, sample := range p.Sample {
		total += s.valueOf(sample)
		c.addSample(sample)
	}
	functions = c.functions
	slices.SortFunc(functions, func(a, b Function) int {
		return cmp.Or(cmp.Compare(b.Self, a.Self), cmp.Compare(b.Total, a.Total), cmp.Compare(a.Name, b.Name),
			cmp.Compare(a.Binary, b.Binary))
	})
	return functions, total, nil
}

// amount returns the Amount of a sample of the profile. If values have the sum v and the maximum m, the sum of their
// squares is at most m*v.
func (s *stacks) amount(sample *profile.Sample) Amount {
	value := float64(s.valueOf(sample))
	n, known := s.count(sample)
	switch {
	case s.value == s.taken || !known && s.valueUnit() == pprof.CountUnit: // each sample has the value 1
		return Amount{value, value, value}
	case !known:
		return Amount{value, 1, value * value}
	case s.period > 0:
		return Amount{value, float64(n), value * float64(s.period)}
	}
	largest := value
	if of := sample.NumLabel[pprof.Largest]; len(of) == 1 && of[0] > 0 {
		largest = min(largest, float64(of[0]))
	}
	return Amount{value, float64(n), value * largest}
}

// functionKey identifies a function. It is the same for one file with two paths, as in two containers.
type functionKey struct{ name, file string }

// fileOf returns a key for the file of a frame: its build ID or, without one, its path or the runtime.
func fileOf(f frame, l *profile.Location) string {
	if f.binary != "" && l != nil && l.Mapping != nil && l.Mapping.BuildID != "" {
		return l.Mapping.BuildID
	}
	return tree.CodeOf(f.binary)
}

// functionCounts adds up the samples of each function. A profile may have millions of frames, so the functions of a
// location are looked up once, and a frame costs only an access to their numbers.
type functionCounts struct {
	stacks    *stacks
	functions []Function
	in        []int                       // by function number, the last sample with the function; samples count from 1
	byKey     map[functionKey]int         // function numbers
	of        map[*profile.Location][]int // function numbers of a location, outermost first
	samples   int
}

// addSample counts a sample. A recursive function counts once.
func (c *functionCounts) addSample(sample *profile.Sample) {
	c.samples++
	value, amount := c.stacks.valueOf(sample), c.stacks.amount(sample)
	leaf := -1
	for _, l := range slices.Backward(sample.Location) {
		for _, n := range c.functionsAt(l) {
			leaf = n
			c.count(n, value, amount)
		}
	}
	if leaf < 0 {
		leaf = c.number(frame{name: unnamed}, nil)
		c.count(leaf, value, amount)
	}
	c.functions[leaf].Self += value
	c.functions[leaf].OfSelf.Add(amount)
}

func (c *functionCounts) count(n int, value int64, amount Amount) {
	if c.in[n] != c.samples {
		c.functions[n].Total += value
		c.functions[n].OfTotal.Add(amount)
	}
	c.in[n] = c.samples
}

// functionsAt returns the function numbers of a location, outermost first.
func (c *functionCounts) functionsAt(l *profile.Location) []int {
	numbers, ok := c.of[l]
	if !ok {
		for _, f := range c.stacks.frames(l) {
			numbers = append(numbers, c.number(f, l))
		}
		c.of[l] = numbers
	}
	return numbers
}

// number returns the function number of a frame at a location.
func (c *functionCounts) number(f frame, l *profile.Location) int {
	key := functionKey{f.name, fileOf(f, l)}
	n, ok := c.byKey[key]
	if !ok {
		n = len(c.functions)
		c.byKey[key] = n
		c.functions = append(c.functions, Function{Name: f.name, Binary: f.binary})
		c.in = append(c.in, 0)
	}
	return n
}

// Where returns the base name of a function's binary, such as "libc.so.6".
func (f Function) Where() string {
	if f.Binary == "" {
		return ""
	}
	return path.Base(f.Binary)
}
