package export

import (
	"cmp"
	"path"
	"slices"

	"github.com/google/pprof/profile"
)

// Function is a function with what it has of a profile.
type Function struct {
	Name   string `json:"name"`
	Binary string `json:"binary,omitempty"` // file that its code is in; "" for what is no code
	Self   int64  `json:"self"`             // value of the samples that end in it
	Total  int64  `json:"total"`            // value of the samples that have it
}

// Functions returns the functions of a profile, most self first, and the value of all samples.
func Functions(p *profile.Profile) (functions []Function, total int64, err error) {
	s, err := newStacks(p)
	if err != nil {
		return nil, 0, err
	}
	c := functionCounts{stacks: s, byKey: map[functionKey]int{}, of: map[*profile.Location][]int{}}
	for _, sample := range p.Sample {
		total += s.valueOf(sample)
		c.add(sample)
	}
	functions = c.functions
	slices.SortFunc(functions, func(a, b Function) int {
		return cmp.Or(cmp.Compare(b.Self, a.Self), cmp.Compare(b.Total, a.Total), cmp.Compare(a.Name, b.Name),
			cmp.Compare(a.Binary, b.Binary))
	})
	return functions, total, nil
}

// Samples returns how many samples were taken for a profile. Of one that does not say it, whose samples may each stand
// for another value, it is the value of all.
func Samples(p *profile.Profile) (float64, error) {
	s, err := newStacks(p)
	if err != nil {
		return 0, err
	}
	if n, known := s.samples(); known {
		return float64(n), nil
	}
	return float64(s.total()), nil
}

// functionKey is what distinguishes functions.
type functionKey struct{ name, binary string }

// functionCounts adds up what each function has. A profile may have millions of frames, so the functions of a location
// are looked up once, and a frame costs no more than a look at their numbers.
type functionCounts struct {
	stacks    *stacks
	functions []Function
	in        []int                       // the last sample that has the function of that number, from 1 on
	byKey     map[functionKey]int         // numbers of functions
	of        map[*profile.Location][]int // numbers of a location's functions, outermost first
	samples   int
}

// add counts a sample. A function that calls itself counts once.
func (c *functionCounts) add(sample *profile.Sample) {
	c.samples++
	value := c.stacks.valueOf(sample)
	leaf := -1
	for _, l := range slices.Backward(sample.Location) {
		for _, n := range c.at(l) {
			leaf = n
			c.count(n, value)
		}
	}
	if leaf < 0 {
		leaf = c.number(frame{name: unnamed})
		c.count(leaf, value)
	}
	c.functions[leaf].Self += value
}

func (c *functionCounts) count(n int, value int64) {
	if c.in[n] != c.samples {
		c.functions[n].Total += value
	}
	c.in[n] = c.samples
}

// at returns the numbers of the functions of a location, outermost first.
func (c *functionCounts) at(l *profile.Location) []int {
	numbers, ok := c.of[l]
	if !ok {
		for _, f := range c.stacks.frames(l) {
			numbers = append(numbers, c.number(f))
		}
		c.of[l] = numbers
	}
	return numbers
}

// number returns the number of the function of a frame.
func (c *functionCounts) number(f frame) int {
	key := functionKey{f.name, f.binary}
	n, ok := c.byKey[key]
	if !ok {
		n = len(c.functions)
		c.byKey[key] = n
		c.functions = append(c.functions, Function{Name: f.name, Binary: f.binary})
		c.in = append(c.in, 0)
	}
	return n
}

// Where is the short name of a function's binary: "libc.so.6".
func (f Function) Where() string {
	if f.Binary == "" {
		return ""
	}
	return path.Base(f.Binary)
}
