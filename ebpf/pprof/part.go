package pprof

import (
	"github.com/google/pprof/profile"
)

// part is one profile in the making, with an upper bound of its encoded size.
type part struct {
	out       *profile.Profile
	size      int
	texts     map[string]struct{}
	mappings  map[mapping]*profile.Mapping
	functions map[function]*profile.Function
}

// function identifies a function in a profile.
type function struct{ name, systemName, file string }

func newPart(opts Options) *part {
	return &part{
		out: &profile.Profile{
			SampleType:    []*profile.ValueType{{Type: opts.Type, Unit: opts.Unit}},
			PeriodType:    &profile.ValueType{Type: opts.Type, Unit: opts.Unit},
			Period:        opts.Period,
			DurationNanos: opts.Duration.Nanoseconds(),
		},
		size:      headerSize + len(opts.Type) + len(opts.Unit),
		texts:     map[string]struct{}{"": {}},
		mappings:  map[mapping]*profile.Mapping{},
		functions: map[function]*profile.Function{},
	}
}

// samplePrice bounds what a sample adds to the part, its locations not counted.
func (p *part) samplePrice(stack []*location, labels []Label) int {
	last := len(p.out.Location) + len(stack) // no ID is above that
	size := valueSize + 2*len(stack[:min(2, len(stack))])
	for _, l := range stack {
		if l.in == p {
			size += varintSize(int(l.out.ID))
		} else {
			size += varintSize(last)
		}
	}
	for _, l := range labels {
		size += numLabelSize + textSize(l.Key) + textSize(l.Text) + textSize(l.NumUnit)
	}
	return messageSize(size + idSize)
}

// add adds a new sample.
func (p *part) add(stack []*location, value int64, labels []Label) *profile.Sample {
	s := &profile.Sample{Location: make([]*profile.Location, len(stack)), Value: []int64{value}}
	size := valueSize + 2*min(2, len(stack)) + idSize
	for i, l := range stack {
		s.Location[i] = p.location(l)
		size += varintSize(int(s.Location[i].ID))
	}
	for _, l := range labels {
		size += p.label(s, l)
	}
	p.size += messageSize(size)
	p.out.Sample = append(p.out.Sample, s)
	return s
}

// label adds a label to s and returns the bound of its size in the sample.
func (p *part) label(s *profile.Sample, l Label) int {
	key := p.text(cleanText(l.Key, maxText))
	if l.Text != "" {
		if s.Label == nil {
			s.Label = map[string][]string{}
		}
		s.Label[key] = append(s.Label[key], p.text(cleanText(l.Text, maxText)))
		return textLabelSize
	}
	if s.NumLabel == nil {
		s.NumLabel, s.NumUnit = map[string][]int64{}, map[string][]string{}
	}
	s.NumLabel[key] = append(s.NumLabel[key], l.Number)
	s.NumUnit[key] = append(s.NumUnit[key], p.text(cleanText(l.NumUnit, maxText)))
	return numLabelSize
}

// location returns l as it is in this part.
func (p *part) location(l *location) *profile.Location {
	if l.in == p {
		return l.out
	}
	out := &profile.Location{
		ID:      uint64(len(p.out.Location) + 1),
		Mapping: p.mapping(l.mapping),
		Address: l.address,
		Line:    make([]profile.Line, len(l.lines)),
	}
	for i, line := range l.lines {
		out.Line[i] = profile.Line{Function: p.function(line), Line: line.Line}
		out.Mapping.HasFilenames = out.Mapping.HasFilenames || line.File != ""
		out.Mapping.HasLineNumbers = out.Mapping.HasLineNumbers || line.Line != 0
	}
	out.Mapping.HasFunctions = len(l.lines) > 0
	out.Mapping.HasInlineFrames = out.Mapping.HasInlineFrames || len(l.lines) > 1
	p.out.Location = append(p.out.Location, out)
	p.size += locationSize(l)
	l.in, l.out = p, out
	return out
}

// mapping returns m as it is in this part. Frames that are no code have one too:
// Pyroscope drops samples whose locations have no mapping.
func (p *part) mapping(m mapping) *profile.Mapping {
	if out := p.mappings[m]; out != nil {
		return out
	}
	out := &profile.Mapping{
		ID:    uint64(len(p.out.Mapping) + 1),
		Start: m.Start, Limit: m.Limit, Offset: m.Offset,
		File: p.text(m.File), BuildID: p.text(m.BuildID),
	}
	p.mappings[m] = out
	p.out.Mapping = append(p.out.Mapping, out)
	p.size += mappingSize
	return out
}

func (p *part) function(line Line) *profile.Function {
	key := function{line.Function, line.SystemName, line.File}
	if out := p.functions[key]; out != nil {
		return out
	}
	out := &profile.Function{
		ID:         uint64(len(p.out.Function) + 1),
		Name:       p.text(line.Function),
		SystemName: p.text(line.SystemName),
		Filename:   p.text(line.File),
	}
	p.functions[key] = out
	p.out.Function = append(p.out.Function, out)
	p.size += functionSize
	return out
}

// text counts a string's size once and returns it.
func (p *part) text(s string) string {
	if _, known := p.texts[s]; !known {
		p.texts[s] = struct{}{}
		p.size += textSize(s)
	}
	return s
}
