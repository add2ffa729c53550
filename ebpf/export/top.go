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
	type key struct{ name, binary string }
	type counted struct {
		Function
		in int // the last sample that has it, from 1 on
	}
	byKey := map[key]*counted{}
	for n, sample := range p.Sample {
		value := s.valueOf(sample)
		total += value
		stack := s.code(sample)
		for i, f := range stack {
			k := key{f.name, f.binary}
			of := byKey[k]
			if of == nil {
				of = &counted{Function: Function{Name: f.name, Binary: f.binary}}
				byKey[k] = of
			}
			if i == len(stack)-1 {
				of.Self += value
			}
			if of.in != n+1 { // a function that calls itself counts once
				of.Total += value
			}
			of.in = n + 1
		}
	}
	for _, f := range byKey {
		functions = append(functions, f.Function)
	}
	slices.SortFunc(functions, func(a, b Function) int {
		return cmp.Or(cmp.Compare(b.Self, a.Self), cmp.Compare(b.Total, a.Total), cmp.Compare(a.Name, b.Name),
			cmp.Compare(a.Binary, b.Binary))
	})
	return functions, total, nil
}

// Where is the short name of a function's binary: "libc.so.6".
func (f Function) Where() string {
	if f.Binary == "" {
		return ""
	}
	return path.Base(f.Binary)
}
