package convert

import (
	"errors"
	"fmt"
	"path"
	"strings"

	"go.yaml.in/yaml/v3"
)

// receiver is the collector's name of its profiler.
const receiver = "profiling"

// elsewhere describes files of other programs, by a top-level key, and how to convert them.
var elsewhere = map[string]string{
	"relabel_configs": "a configuration of parca-agent with its own labels; write its rules as rules of " +
		"discovery.relabel, and convert its flags: headwater convert -- parca-agent FLAGS",
	"scrape_configs": "a configuration for scraping, such as Phlare's; write a pyroscope.scrape for each job",
	"metrics":        "a configuration of Grafana Agent in static mode, which has no profiles",
	"logs":           "a configuration of Grafana Agent in static mode, which has no profiles",
	"integrations":   "a configuration of Grafana Agent in static mode, which has no profiles",
}

// parts says how each part of a collector's configuration is converted.
var parts = map[string]string{
	"receivers":  "only the receiver profiling is converted; leave this receiver to the collector",
	"exporters":  noOTLP,
	"processors": "write its changes of labels as rules of pyroscope.relabel",
	"connectors": "Headwater has no connectors",
	"extensions": "Headwater has no extensions",
}

// YAML converts the profiling receiver in an OpenTelemetry collector's configuration to a configuration that pushes to
// a Pyroscope server. Errors name the file and the line.
func YAML(file, server string, text []byte) (*Result, error) {
	var document yaml.Node
	if err := yaml.Unmarshal(text, &document); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	if len(document.Content) == 0 || document.Content[0].Kind != yaml.MappingNode {
		return nil, fmt.Errorf("%s is not a configuration: it has no keys", file)
	}
	y := yamlFile{name: file, settings: otelProgram().standard()}
	if err := y.readNode(document.Content[0]); err != nil {
		return nil, err
	}
	of := fmt.Sprintf("the receiver %s of %s", receiver, path.Base(file))
	return &Result{River: y.river(of, server), Notes: y.notes, Unknown: y.unknown}, nil
}

// yamlFile is a configuration that is being read.
type yamlFile struct {
	settings
	name    string
	found   int // line of the receiver, 0 if not found yet
	unknown []string
}

// place returns "file:line: key".
func (y *yamlFile) place(key *yaml.Node) string {
	return fmt.Sprintf("%s:%d: %s", y.name, key.Line, key.Value)
}

// readNode reads all keys.
func (y *yamlFile) readNode(top *yaml.Node) error {
	for key, value := range pairs(top) {
		if what, ok := elsewhere[key.Value]; ok {
			return fmt.Errorf("%s: this is %s", y.place(key), what)
		}
		for name, of := range pairs(value) {
			if key.Value == "receivers" && isReceiver(name.Value) {
				if err := y.readReceiver(name, of); err != nil {
					return err
				}
			} else if note, ok := parts[key.Value]; ok {
				y.at = y.place(name)
				y.addNote(note)
			}
		}
	}
	if y.found == 0 {
		return fmt.Errorf("%s has no receiver %s, the profiler of an OpenTelemetry collector", y.name, receiver)
	}
	return nil
}

// isReceiver reports whether a receiver profiles: profiling, or profiling/NAME.
func isReceiver(name string) bool { return name == receiver || strings.HasPrefix(name, receiver+"/") }

// readReceiver reads the arguments of the profiler, which correspond to its flags.
func (y *yamlFile) readReceiver(name, of *yaml.Node) error {
	if y.found > 0 {
		return fmt.Errorf("%s: line %d has a receiver profiling already; keep one of them", y.place(name), y.found)
	}
	y.found = name.Line
	rules := otelProgram().flags
	for key, value := range pairs(of) {
		y.at = y.place(key)
		known, ok := rules[flagOf(key.Value)]
		if !ok {
			y.unknown = append(y.unknown, y.at)
			continue
		}
		text, err := textOf(value)
		if err != nil {
			return fmt.Errorf("%s: %w", y.at, err)
		}
		if err := y.apply(known, text, true); err != nil {
			return err
		}
	}
	return nil
}

// flagOf returns the flag that corresponds to a key. Keys are now written samples_per_second, formerly
// SamplesPerSecond.
func flagOf(key string) string {
	key = strings.ToLower(strings.ReplaceAll(key, "_", ""))
	if flag, ok := map[string]string{
		"verbosemode": "verbose", "includeenvvars": "env-vars", "probelinks": "probe-link", "uprobelinks": "probe-link",
	}[key]; ok {
		return flag
	}
	for flag := range otelProgram().flags {
		if strings.ReplaceAll(flag, "-", "") == key {
			return flag
		}
	}
	return key
}

// textOf returns a value as text for a flag: the elements of a list are joined with commas.
func textOf(value *yaml.Node) (string, error) {
	switch value.Kind {
	case yaml.ScalarNode:
		return value.Value, nil
	case yaml.SequenceNode:
		var all []string
		for _, of := range value.Content {
			text, err := textOf(of)
			if err != nil {
				return "", err
			}
			all = append(all, text)
		}
		return strings.Join(all, ","), nil
	}
	return "", errors.New("want a value or a list")
}

// pairs iterates over the keys and values of a mapping. Other nodes have none.
func pairs(of *yaml.Node) func(yield func(key, value *yaml.Node) bool) {
	return func(yield func(key, value *yaml.Node) bool) {
		if of.Kind != yaml.MappingNode {
			return
		}
		for i := 0; i+1 < len(of.Content); i += 2 {
			if !yield(of.Content[i], of.Content[i+1]) {
				return
			}
		}
	}
}
