package jfr

import (
	"encoding/binary"

	"github.com/google/pprof/profile"
)

// stack is a call stack, from the leaf on.
type stack []frame

type frame struct {
	name string
	line int64
}

// builder makes a pprof profile with two values for each stack.
type builder struct {
	name      string // of the profile
	pprof     *profile.Profile
	functions map[string]*profile.Function
	locations map[frame]*profile.Location
	samples   map[string]*profile.Sample // by locations and thread
}

func newBuilder(name, count, value, unit, periodType, periodUnit string) *builder {
	return &builder{
		name: name,
		pprof: &profile.Profile{
			SampleType: []*profile.ValueType{{Type: count, Unit: "count"}, {Type: value, Unit: unit}},
			PeriodType: &profile.ValueType{Type: periodType, Unit: periodUnit},
		},
		functions: map[string]*profile.Function{}, locations: map[frame]*profile.Location{},
		samples: map[string]*profile.Sample{},
	}
}

// add adds to the values of a stack, of one thread unless the name is "".
func (b *builder) add(s stack, thread string, count, value int64) {
	locations := make([]*profile.Location, len(s))
	var key []byte
	for i, f := range s {
		locations[i] = b.locationOf(f)
		key = binary.AppendUvarint(key, locations[i].ID)
	}
	key = append(append(key, 0), thread...)
	sample := b.samples[string(key)]
	if sample == nil {
		sample = &profile.Sample{Location: locations, Value: make([]int64, 2)}
		if thread != "" {
			sample.Label = map[string][]string{"thread_name": {thread}}
		}
		b.samples[string(key)] = sample
		b.pprof.Sample = append(b.pprof.Sample, sample)
	}
	sample.Value[0] += count
	sample.Value[1] += value
}

func (b *builder) locationOf(f frame) *profile.Location {
	if l := b.locations[f]; l != nil {
		return l
	}
	function := b.functions[f.name]
	if function == nil {
		function = &profile.Function{ID: uint64(len(b.functions) + 1), Name: f.name, SystemName: f.name}
		b.functions[f.name] = function
		b.pprof.Function = append(b.pprof.Function, function)
	}
	l := &profile.Location{ID: uint64(len(b.locations) + 1), Line: []profile.Line{{Function: function, Line: f.line}}}
	b.locations[f] = l
	b.pprof.Location = append(b.pprof.Location, l)
	return l
}
