// Package convert turns the flags of other profilers, and files of the OpenTelemetry collector, into a configuration in
// River.
package convert

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Result is what flags became.
type Result struct {
	River   string
	Notes   []string // what has no equal here, a sentence for each flag
	Unknown []string // flags that the other profiler does not have either, or not the version that is known
}

// Programs are the profilers whose flags are known.
func Programs() []string { return slices.Sorted(maps.Keys(programs())) }

// program is another profiler.
type program struct {
	standard func() settings // what it does without flags
	flags    map[string]rule
}

// rule says what a flag means.
type rule struct {
	bare bool                                  // it may stand without a value, which is true then
	set  func(s *settings, value string) error // nil: nothing has to be set
	note string                                // what has no equal here; "": nothing is missing
}

func programs() map[string]program {
	return map[string]program{"ebpf-profiler": otel(), "parca-agent": parca()}
}

// settings are what a configuration says.
type settings struct {
	rate      int
	interval  time.Duration
	languages map[string]bool // by argument: python_enabled; those that are off
	threads   []string        // arguments that are on
	offCPU    string          // off_cpu_threshold, "" if that is not wanted
	labels    map[string]string
	logging   map[string]string
	notes     []string
	at        string // what is being read: a flag, or a line of a file
}

// note says of what is being read that something has no equal here.
func (s *settings) note(text string) { s.notes = append(s.notes, s.at+": "+text) }

// Flags converts the flags of a program, which Programs lists, to a configuration that pushes to a Pyroscope server.
// Errors name the flag.
func Flags(name, server string, args []string) (*Result, error) {
	p, ok := programs()[path.Base(name)]
	if !ok {
		return nil, fmt.Errorf("the flags of %q are not known, those of %s are", name, strings.Join(Programs(), " and "))
	}
	s, r := p.standard(), &Result{}
	for len(args) > 0 {
		word := args[0]
		args = args[1:]
		flag, value, hasValue := strings.Cut(strings.TrimLeft(word, "-"), "=")
		if !strings.HasPrefix(word, "-") || flag == "" {
			return nil, fmt.Errorf("%q is no flag of %s", word, name)
		}
		known, ok := p.flags[flag]
		if !hasValue && !known.bare && len(args) > 0 && !strings.HasPrefix(args[0], "-") {
			value, args, hasValue = args[0], args[1:], true
		}
		if !ok {
			r.Unknown = append(r.Unknown, word)
			continue
		}
		s.at = "-" + flag
		if err := s.apply(known, value, hasValue); err != nil {
			return nil, err
		}
	}
	r.River, r.Notes = s.river("the flags of "+path.Base(name), server), s.notes
	return r, nil
}

func (s *settings) apply(known rule, value string, hasValue bool) error {
	switch {
	case !hasValue && !known.bare:
		return fmt.Errorf("%s takes a value", s.at)
	case !hasValue:
		value = "true"
	}
	if known.note != "" && value != "false" {
		s.note(known.note)
	}
	if known.set == nil {
		return nil
	}
	if err := known.set(s, value); err != nil {
		return fmt.Errorf("%s: %w", s.at, err)
	}
	return nil
}

// river writes the configuration, made of what is named.
func (s *settings) river(of, server string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "// Made of %s.\n", of)
	if len(s.logging) > 0 {
		b.WriteString("logging {\n")
		writeAligned(&b, quoted(s.logging), "\t")
		b.WriteString("}\n\n")
	}
	arguments := map[string]string{
		"forward_to": "[pyroscope.write.server.receiver]", "targets_only": "false",
		"default_target": `{"service_name" = "host"}`,
		"sample_rate":    strconv.Itoa(s.rate), "collect_interval": strconv.Quote(s.interval.String()),
	}
	for argument := range s.languages {
		arguments[argument] = "false"
	}
	for _, argument := range s.threads {
		arguments[argument] = "true"
	}
	if s.offCPU != "" {
		arguments["off_cpu_threshold"] = s.offCPU
	}
	b.WriteString("pyroscope.ebpf \"host\" {\n")
	writeAligned(&b, arguments, "\t")
	b.WriteString("}\n\npyroscope.write \"server\" {\n")
	fmt.Fprintf(&b, "\tendpoint {\n\t\turl = %q\n\t}\n", server)
	if len(s.labels) > 0 {
		b.WriteString("\texternal_labels = {\n")
		for _, label := range slices.Sorted(maps.Keys(s.labels)) {
			fmt.Fprintf(&b, "\t\t%q = %s,\n", label, s.labels[label])
		}
		b.WriteString("\t}\n")
	}
	b.WriteString("}\n")
	return b.String()
}

func writeAligned(b *strings.Builder, values map[string]string, indent string) {
	for _, name := range slices.Sorted(maps.Keys(values)) {
		fmt.Fprintf(b, "%s%s = %s\n", indent, name, values[name])
	}
}

func quoted(values map[string]string) map[string]string {
	out := map[string]string{}
	for name, value := range values {
		out[name] = strconv.Quote(value)
	}
	return out
}
