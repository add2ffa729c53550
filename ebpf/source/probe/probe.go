// Package probe takes samples where a program or the kernel runs an instruction. A Probe is parsed from a link, such as
// uprobe:/bin/bash:readline; it finds the place in the file, and the kind of the samples. A Prober keeps probes
// attached and makes samples of their hits.
package probe

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/headwater/headwater/flame/kind"
)

// Probe is one link, parsed. It is comparable.
type Probe struct {
	Link string // as it was given

	Type   string // one of Types
	Path   string // for uprobe, uretprobe and usdt: the file
	Group  string // for usdt the provider, for tracepoint the group
	Symbol string // function, or name of the USDT probe, tracepoint or event
	Offset uint64 // from the symbol on

	Name   string // of the profile type; "" means the result of Series
	Value  Value  // the number that is added up; Calls by default
	Int    bool   // the value is a 32-bit int: the upper half of its register is undefined
	Unit   string // of the value: count, bytes or nanoseconds
	Period uint64 // one of this many hits is sampled
}

// Value is the number that a probe adds up: -1 for the number of hits, 0 for the result of the function, else the
// number of an argument.
type Value int

// The values that are not arguments.
const (
	Calls    Value = -1
	Returned Value = 0
)

// MaxArgument is the last argument of a function that is in a register on each architecture.
const MaxArgument = 6

// MaxPeriod limits Probe.Period.
const MaxPeriod = 1 << 31

// Types returns the types of probes, and the form of their links.
func Types() map[string]string {
	return map[string]string{
		"uprobe":           "uprobe:PATH:FUNCTION[+OFFSET]",
		"uretprobe":        "uretprobe:PATH:FUNCTION",
		"unsafe-uretprobe": "unsafe-uretprobe:PATH:FUNCTION",
		"usdt":             "usdt:PATH:PROVIDER:NAME",
		"tracepoint":       "tracepoint:GROUP:NAME",
		"software":         "software:EVENT",
		"kprobe":           "kprobe:FUNCTION[+OFFSET]",
		"kretprobe":        "kretprobe:FUNCTION",
	}
}

// Parse parses a link: a place, and after blanks options such as value=arg1. The error describes the mistake and the
// right form.
func Parse(link string) (Probe, error) {
	p := Probe{Link: link, Value: Calls, Unit: "count", Period: 1}
	fields := strings.Fields(link)
	if len(fields) == 0 {
		return p, fmt.Errorf("it is empty: want a link such as %s", Types()["uprobe"])
	}
	if err := p.parsePlace(fields[0]); err != nil {
		return p, err
	}
	for _, option := range fields[1:] {
		if err := p.parseOption(option); err != nil {
			return p, err
		}
	}
	return p, p.check()
}

func (p *Probe) parsePlace(place string) error {
	var rest string
	p.Type, rest, _ = strings.Cut(place, ":")
	form, ok := Types()[p.Type]
	if !ok {
		return fmt.Errorf("%q is no type of probe: want uprobe, uretprobe, unsafe-uretprobe, usdt, tracepoint, software, "+
			"kprobe or kretprobe", p.Type)
	}
	names := strings.Count(form, ":") // after the type
	parts := []string{}
	for len(parts) < names-1 { // from the end: a path may have colons
		at := lastColon(rest)
		if at < 0 {
			return fmt.Errorf("want %s", form)
		}
		parts, rest = append([]string{rest[at+1:]}, parts...), rest[:at]
	}
	parts = append([]string{rest}, parts...)
	for _, part := range parts {
		if part == "" {
			return fmt.Errorf("want %s", form)
		}
	}
	p.Symbol = parts[len(parts)-1]
	switch p.Type {
	case "uprobe", "uretprobe", "unsafe-uretprobe":
		p.Path = parts[0]
	case "usdt":
		p.Path, p.Group = parts[0], parts[1]
	case "tracepoint":
		p.Group = parts[0]
	}
	return p.parseOffset(form)
}

// lastColon returns the position of the last colon that separates two parts, -1 if there is none: two colons in a row
// are part of a function's name, as in ns::Class::f.
func lastColon(s string) int {
	for at := len(s) - 1; at >= 0; at-- {
		if s[at] != ':' {
			continue
		}
		if at == 0 || s[at-1] != ':' {
			return at
		}
		at--
	}
	return -1
}

// parseOffset splits the offset off the symbol.
func (p *Probe) parseOffset(form string) error {
	symbol, offset, ok := strings.Cut(p.Symbol, "+")
	if !ok || p.Type != "uprobe" && p.Type != "kprobe" {
		return nil
	}
	n, err := strconv.ParseUint(offset, 0, 63)
	if err != nil || symbol == "" {
		return fmt.Errorf("%q is no function and offset: want %s", p.Symbol, form)
	}
	p.Symbol, p.Offset = symbol, n
	return nil
}

var validName = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_]*$`)

func (p *Probe) parseOption(option string) error {
	key, text, _ := strings.Cut(option, "=")
	switch key {
	case "name":
		if !validName.MatchString(text) {
			return fmt.Errorf("name %q must have only letters, digits and _, and must not start with a digit", text)
		}
		p.Name = text
	case "period":
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil || n < 1 || n > MaxPeriod {
			return fmt.Errorf("period must be between 1 and %d, got %q", MaxPeriod, text)
		}
		p.Period = n
	case "unit":
		if text != "count" && text != "bytes" && text != "nanoseconds" {
			return fmt.Errorf("unit must be count, bytes or nanoseconds, got %q", text)
		}
		p.Unit = text
	case "value":
		return p.parseValue(text)
	default:
		return fmt.Errorf("%q is no option: want value=, unit=, period= or name=", option)
	}
	return nil
}

func (p *Probe) parseValue(text string) error {
	text, p.Int = strings.CutSuffix(text, ":int")
	if text == "ret" {
		p.Value = Returned
		return nil
	}
	number, ok := strings.CutPrefix(text, "arg")
	n, err := strconv.Atoi(number)
	if !ok || err != nil || n < 1 || n > MaxArgument {
		return fmt.Errorf("value must be ret or arg1 to arg%d, with :int after it for an int, got %q", MaxArgument, text)
	}
	p.Value = Value(n)
	return nil
}

// check returns an error for options that exclude each other.
func (p *Probe) check() error {
	switch {
	case p.Value == Returned && p.Type != "uretprobe" && p.Type != "unsafe-uretprobe":
		return fmt.Errorf("value=ret is the return value: use it with uretprobe, not %s", p.Type)
	case p.Value > 0 && (p.Type != "uprobe" || p.Offset != 0):
		return fmt.Errorf("value=arg%d needs a uprobe at the start of a function", p.Value)
	case p.Value == Calls && p.Unit != "count":
		return fmt.Errorf("unit=%s needs a value: add value=arg1, for example", p.Unit)
	case p.Type == "software":
		_, err := p.event()
		return err
	}
	return nil
}

var notInNames = regexp.MustCompile(`[^a-zA-Z0-9_]+`)

// Series returns the name of the profiles, the first part of their type in Pyroscope.
func (p *Probe) Series() string {
	if p.Name != "" {
		return p.Name
	}
	parts := []string{p.Type}
	if p.Group != "" {
		parts = append(parts, p.Group)
	}
	return notInNames.ReplaceAllString(strings.Join(append(parts, p.Symbol), "_"), "_")
}

// Info describes the kind of the samples.
func (p *Probe) Info() kind.Info {
	value := kind.Value{Type: "hits", Unit: "count", Per: 1}
	if p.Value != Calls {
		value = kind.Value{Type: map[string]string{"bytes": "space", "nanoseconds": "time"}[p.Unit], Unit: p.Unit, Per: 1}
		if value.Type == "" {
			value.Type = "sum"
		}
	}
	return kind.Info{
		Name: p.Series(), Series: p.Series(), Values: []kind.Value{value}, Title: "probe " + p.Link, Period: p.Period,
	}
}
