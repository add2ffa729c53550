package export

import (
	"github.com/google/pprof/profile"

	"github.com/headwater/headwater/flame/printable"
)

// Clean makes all text of a profile printable. The tool that wrote the profile may not have checked names.
func Clean(p *profile.Profile) {
	clean := func(texts ...*string) {
		for _, text := range texts {
			*text = printable.Text(*text)
		}
	}
	for _, f := range p.Function {
		clean(&f.Name, &f.SystemName, &f.Filename)
	}
	for _, m := range p.Mapping {
		clean(&m.File, &m.BuildID)
	}
	for _, t := range append([]*profile.ValueType{p.PeriodType}, p.SampleType...) {
		if t != nil {
			clean(&t.Type, &t.Unit)
		}
	}
	for _, s := range p.Sample {
		cleanLabels(s.Label)
		cleanLabels(s.NumUnit)
		cleanKeys(s.NumLabel)
	}
	for i := range p.Comments {
		clean(&p.Comments[i])
	}
	clean(&p.DefaultSampleType, &p.DropFrames, &p.KeepFrames)
}

// cleanLabels cleans the keys and the values of labels.
func cleanLabels(labels map[string][]string) {
	for _, values := range labels {
		for i, value := range values {
			values[i] = printable.Text(value)
		}
	}
	cleanKeys(labels)
}

// cleanKeys cleans the keys of labels. If keys become equal, it joins their values.
func cleanKeys[V any](labels map[string][]V) {
	for key, values := range labels {
		if clean := printable.Text(key); clean != key {
			delete(labels, key)
			labels[clean] = append(labels[clean], values...)
		}
	}
}
