// Package relabel holds Prometheus' relabeling rules as written in River. It uses the names, defaults and checks of
// Grafana Agent and Alloy; Prometheus' library applies the rules.
package relabel

import (
	"fmt"
	"strings"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/relabel"
)

// Config is one rule.
type Config struct {
	SourceLabels []string `river:"source_labels,attr,optional"`
	Separator    string   `river:"separator,attr,optional"`
	Regex        Regexp   `river:"regex,attr,optional"` // of the whole text
	Modulus      uint64   `river:"modulus,attr,optional"`
	TargetLabel  string   `river:"target_label,attr,optional"`
	Replacement  string   `river:"replacement,attr,optional"`
	Action       Action   `river:"action,attr,optional"`
}

// Rules are applied in order. Components can export them: River passes them on whole.
type Rules []*Config

// RiverCapsule marks Rules as a value that River passes on without looking inside.
func (Rules) RiverCapsule() {}

// SetToDefault implements river.Defaulter.
func (c *Config) SetToDefault() {
	d := relabel.DefaultRelabelConfig
	*c = Config{Separator: d.Separator, Regex: Regexp{d.Regex}, Replacement: d.Replacement, Action: Action(d.Action)}
}

// Validate implements river.Validator.
func (c *Config) Validate() error {
	return c.convert().Validate(model.LegacyValidation)
}

func (c *Config) convert() *relabel.Config {
	out := &relabel.Config{
		Separator: c.Separator, Regex: c.Regex.Regexp, Modulus: c.Modulus,
		TargetLabel: c.TargetLabel, Replacement: c.Replacement, Action: relabel.Action(c.Action),
		NameValidationScheme: model.LegacyValidation,
	}
	for _, name := range c.SourceLabels {
		out.SourceLabels = append(out.SourceLabels, model.LabelName(name))
	}
	return out
}

// String describes the rule in a few words for a reader.
func (c *Config) String() string {
	words := []string{string(c.Action)}
	if len(c.SourceLabels) > 0 {
		words = append(words, "["+strings.Join(c.SourceLabels, ", ")+"]")
	}
	if text := c.Regex.String(); text != defaultRegexp {
		words = append(words, fmt.Sprintf("regex %q", text))
	}
	if c.TargetLabel != "" {
		words = append(words, "target_label "+c.TargetLabel)
	}
	return strings.Join(words, " ")
}

// Action is a rule's action.
type Action string

// MarshalText implements encoding.TextMarshaler.
func (a Action) MarshalText() ([]byte, error) { return []byte(a), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (a *Action) UnmarshalText(text []byte) error {
	var known relabel.Action
	err := known.UnmarshalYAML(func(into any) error {
		*into.(*string) = string(text)
		return nil
	})
	if err != nil {
		return err
	}
	*a = Action(known)
	return nil
}

// defaultRegexp matches everything. Prometheus' checks and its fast path know it
// by its pointer.
const defaultRegexp = "(.*)"

// Regexp is a regular expression that must match the whole text; "." also matches line ends.
type Regexp struct{ relabel.Regexp }

// MarshalText implements encoding.TextMarshaler.
func (r Regexp) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (r *Regexp) UnmarshalText(text []byte) error {
	if string(text) == defaultRegexp {
		r.Regexp = relabel.DefaultRelabelConfig.Regex
		return nil
	}
	compiled, err := relabel.NewRegexp(string(text))
	if err != nil {
		return err
	}
	r.Regexp = compiled
	return nil
}

// Program is a compiled set of rules. It is immutable and safe for concurrent use. The zero value changes no labels.
type Program struct{ rules []*relabel.Config }

// Compile compiles rules that have been validated.
func Compile(rules Rules) Program {
	p := Program{rules: make([]*relabel.Config, 0, len(rules))}
	for _, rule := range rules {
		p.rules = append(p.rules, rule.convert())
	}
	return p
}

// Labels applies the rules. droppedBy is the index of the rule that drops the labels, or -1 if no rule drops them.
func (p Program) Labels(in labels.Labels) (out labels.Labels, droppedBy int) {
	builder := labels.NewBuilder(in)
	for i, rule := range p.rules {
		if !relabel.ProcessBuilder(builder, rule) {
			return labels.EmptyLabels(), i
		}
	}
	return builder.Labels(), -1
}

// Map applies the rules to a map of labels, which is not changed.
func (p Program) Map(in map[string]string) (out map[string]string, droppedBy int) {
	result, droppedBy := p.Labels(labels.FromMap(in))
	if droppedBy >= 0 {
		return nil, droppedBy
	}
	return result.Map(), -1
}
