// Package convert converts the flags of other profilers, and files of the OpenTelemetry collector, to a configuration
// in River.
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

// Result is the result of a conversion.
type Result struct {
	River   string
	Notes   []string // about settings without an equivalent here, a sentence for each flag
	Unknown []string // flags that the known version of the other profiler does not have
}

// Programs returns the names of the profilers whose flags are known.
func Programs() []string { return slices.Sorted(maps.Keys(programs())) }

// program is another profiler.
type program struct {
	standard func() settings // its defaults
	flags    map[string]rule
}

// rule describes a flag.
type rule struct {
	bare bool                                  // it needs no value; the default value is true
	set  func(s *settings, value string) error // nil if there is no setting to change
	note string                                // on a missing equivalent; "" if there is none to report
}

func programs() map[string]program {
	return map[string]program{"ebpf-profiler": otelProgram(), "parca-agent": parca()}
}

// settings are the settings of a configuration.
type settings struct {
	rate      int
	interval  time.Duration
	languages map[string]bool // by argument, such as python_enabled; those turned off
	threads   []string        // arguments that are turned on
	offCPU    string          // off_cpu_threshold, "" if off
	probes    []string        // probe_links
	labels    map[string]string
	logging   map[string]string
	notes     []string
	at        string // the current input: a flag, or a line of a file
}

// addNote records that the current input has no equivalent here.
func (s *settings) addNote(text string) { s.notes = append(s.notes, s.at+": "+text) }

// Flags converts the flags of a program from Programs to a configuration that pushes to a Pyroscope server. Errors name
// the flag.
func Flags(name, server string, args []string) (*Result, error) {
	p, ok := programs()[path.Base(name)]
	if !ok {
		return nil, fmt.Errorf("unknown program %q: headwater convert knows the flags of %s", name,
			strings.Join(Programs(), " and "))
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
		return fmt.Errorf("%s needs a value", s.at)
	case !hasValue:
		value = "true"
	}
	if known.note != "" && value != "false" {
		s.addNote(known.note)
	}
	if known.set == nil {
		return nil
	}
	if err := known.set(s, value); err != nil {
		return fmt.Errorf("%s: %w", s.at, err)
	}
	return nil
}

// river returns the configuration. of names the source of the settings.
func (s *settings) river(of, server string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "// Converted from %s.\n", of)
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
	if len(s.probes) > 0 {
		arguments["probe_links"] = listTexts(s.probes)
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

// listTexts returns a list of texts in River.
func listTexts(texts []string) string {
	var quoted []string
	for _, text := range texts {
		quoted = append(quoted, strconv.Quote(text))
	}
	return "[" + strings.Join(quoted, ", ") + "]"
}

func quoted(values map[string]string) map[string]string {
	out := map[string]string{}
	for name, value := range values {
		out[name] = strconv.Quote(value)
	}
	return out
}
