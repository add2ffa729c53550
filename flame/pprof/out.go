package pprof

import (
	"github.com/google/pprof/profile"

	"github.com/headwater/headwater/flame/kind"
)

// out is a profile under construction.
type out struct {
	profile   *profile.Profile
	mappings  map[mapping]*profile.Mapping
	functions map[function]*profile.Function
}

// function identifies a function in a profile.
type function struct {
	name, systemName, file string
	startLine              int64
}

func newOut(opts Options) *out {
	var types []*profile.ValueType
	if opts.Count {
		types = append(types, &profile.ValueType{Type: Samples, Unit: CountUnit})
	}
	for _, v := range kind.Of(opts.Kind).Values {
		types = append(types, &profile.ValueType{Type: v.Type, Unit: v.Unit})
	}
	period := opts.Kind.PeriodType()
	return &out{
		profile: &profile.Profile{
			SampleType:    types,
			PeriodType:    &profile.ValueType{Type: period.Type, Unit: period.Unit},
			Period:        opts.Period,
			DurationNanos: opts.Duration.Nanoseconds(),
		},
		mappings:  map[mapping]*profile.Mapping{},
		functions: make(map[function]*profile.Function, opts.Stacks),
	}
}

// addSample adds a sample with zero values.
func (o *out) addSample(stack []*profile.Location, labels []Label) *profile.Sample {
	s := &profile.Sample{Location: make([]*profile.Location, len(stack)), Value: make([]int64, len(o.profile.SampleType))}
	copy(s.Location, stack)
	for _, l := range labels {
		o.label(s, l)
	}
	o.profile.Sample = append(o.profile.Sample, s)
	return s
}

// label adds a label to s.
func (o *out) label(s *profile.Sample, l Label) {
	key := cleanText(l.Key, maxText)
	if l.Text != "" {
		if s.Label == nil {
			s.Label = map[string][]string{}
		}
		s.Label[key] = append(s.Label[key], cleanText(l.Text, maxText))
		return
	}
	if s.NumLabel == nil {
		s.NumLabel = map[string][]int64{}
	}
	if s.NumUnit == nil {
		s.NumUnit = map[string][]string{}
	}
	s.NumLabel[key] = append(s.NumLabel[key], l.Number)
	s.NumUnit[key] = append(s.NumUnit[key], cleanText(l.NumUnit, maxText))
}

// location converts l for the profile, but does not add it, as the profile may have an equal location.
func (o *out) location(l *Location) *profile.Location {
	out := &profile.Location{
		Mapping: o.mapping(mappingOf(l)),
		Address: l.Address,
		Line:    make([]profile.Line, len(l.Lines)),
	}
	for i, line := range l.Lines {
		out.Line[i] = profile.Line{Function: o.function(line.clean()), Line: line.Line}
	}
	return out
}

// addLocation adds a location, and updates the flags of its mapping.
func (o *out) addLocation(l *profile.Location) {
	o.profile.Location = append(o.profile.Location, l)
	l.ID = uint64(len(o.profile.Location))
	m := l.Mapping
	for _, line := range l.Line {
		m.HasFilenames = m.HasFilenames || line.Function.Filename != ""
		m.HasLineNumbers = m.HasLineNumbers || line.Line != 0
	}
	m.HasFunctions = len(l.Line) > 0
	m.HasInlineFrames = m.HasInlineFrames || len(l.Line) > 1
}

// mapping returns the profile's mapping for m, and adds it if it is new. Frames without code also have a mapping:
// Pyroscope drops samples whose locations have none.
func (o *out) mapping(m mapping) *profile.Mapping {
	if out := o.mappings[m]; out != nil {
		return out
	}
	out := &profile.Mapping{
		ID:    uint64(len(o.profile.Mapping) + 1),
		Start: m.Start, Limit: m.Limit, Offset: m.Offset,
		File: m.File, BuildID: m.BuildID,
	}
	o.mappings[m] = out
	o.profile.Mapping = append(o.profile.Mapping, out)
	return out
}

func (o *out) function(line Line) *profile.Function {
	key := function{line.Function, line.SystemName, line.File, line.StartLine}
	if out := o.functions[key]; out != nil {
		return out
	}
	out := &profile.Function{
		ID:         uint64(len(o.profile.Function) + 1),
		Name:       line.Function,
		SystemName: line.SystemName,
		Filename:   line.File,
		StartLine:  line.StartLine,
	}
	o.functions[key] = out
	o.profile.Function = append(o.profile.Function, out)
	return out
}
