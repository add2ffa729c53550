package main

import (
	"fmt"
	"time"
)

// Names from OpenTelemetry's semantic conventions, and the type of the frame that marks the missing rest of a stack.
const (
	attributeFrameType  = "profile.frame.type"
	attributeThreadName = "thread.name"
	attributePID        = "process.pid"
	frameKernel         = "kernel"
	frameAbort          = "abort-marker"
	frameNative         = "native"
)

// otlpDictionary holds the objects that the samples of an export refer to by index. Field numbers are from
// opentelemetry/proto/profiles/v1development/profiles.proto of v0.3 and v0.4.
type otlpDictionary struct {
	strings    []string
	attributes []otlpAttribute
	locations  []otlpLocation
	functions  []uint64   // indices of their names
	stacks     [][]uint64 // locations
}

// otlpSample is the message of a sample, and its process.
type otlpSample struct {
	message []byte
	pid     int
}

type otlpAttribute struct {
	key   uint64 // index of a string
	value string
}

type otlpLocation struct {
	mapping, address uint64
	attributes       []uint64
	functions        []uint64 // inlined functions first
}

// parseOTLP returns the stacks in an ExportProfilesServiceRequest.
func parseOTLP(request []byte) ([]stack, error) {
	var dictionary otlpDictionary
	var samples []otlpSample
	err := eachField(request, func(resource field) error {
		if resource.number == 2 {
			return dictionary.parse(resource.bytes)
		}
		return otlpSamples(resource, &samples)
	})
	if err != nil {
		return nil, fmt.Errorf("OTLP: %w", err)
	}
	var stacks []stack
	for _, sample := range samples {
		s, err := dictionary.sample(sample)
		if err != nil {
			return nil, fmt.Errorf("OTLP sample: %w", err)
		}
		stacks = append(stacks, s...)
	}
	return stacks, nil
}

// otlpSamples appends the samples of a ResourceProfiles: field 2 is ScopeProfiles,
// whose field 2 is Profile, whose field 2 is Sample.
func otlpSamples(resource field, samples *[]otlpSample) error {
	if resource.number != 1 {
		return nil
	}
	pid, err := otlpPID(resource.bytes)
	if err != nil {
		return err
	}
	var descend func(message []byte, depth int) error
	descend = func(message []byte, depth int) error {
		return eachField(message, func(f field) error {
			switch {
			case f.number != 2 || f.bytes == nil:
				return nil
			case depth == 2:
				*samples = append(*samples, otlpSample{f.bytes, pid})
				return nil
			}
			return descend(f.bytes, depth+1)
		})
	}
	return descend(resource.bytes, 0)
}

// otlpPID returns the process of a ResourceProfiles, 0 if it has none: field 1 is Resource, whose field 1 is a
// KeyValue, whose field 2 is AnyValue, whose field 3 is an integer.
func otlpPID(resource []byte) (pid int, err error) {
	err = eachField(resource, func(r field) error {
		if r.number != 1 {
			return nil
		}
		return eachField(r.bytes, func(attribute field) error {
			if attribute.number != 1 {
				return nil
			}
			key, value := "", 0
			err := eachField(attribute.bytes, func(f field) error {
				if f.number == 1 {
					key = string(f.bytes)
					return nil
				}
				return eachField(f.bytes, func(any field) error {
					if any.number == 3 {
						value = int(any.value)
					}
					return nil
				})
			})
			if key == attributePID {
				pid = value
			}
			return err
		})
	})
	return pid, err
}

func (d *otlpDictionary) parse(message []byte) error {
	return eachField(message, func(f field) (err error) {
		switch f.number {
		case 2:
			var l otlpLocation
			err = l.parse(f.bytes)
			d.locations = append(d.locations, l)
		case 3:
			var name uint64
			err = eachField(f.bytes, func(f field) error {
				if f.number == 1 {
					name = f.value
				}
				return nil
			})
			d.functions = append(d.functions, name)
		case 5:
			d.strings = append(d.strings, string(f.bytes))
		case 6:
			var a otlpAttribute
			err = a.parse(f.bytes)
			d.attributes = append(d.attributes, a)
		case 7:
			var locations []uint64
			err = eachField(f.bytes, func(f field) error {
				l, err := f.varints()
				locations = append(locations, l...)
				return err
			})
			d.stacks = append(d.stacks, locations)
		}
		return err
	})
}

func (l *otlpLocation) parse(message []byte) error {
	return eachField(message, func(f field) (err error) {
		switch f.number {
		case 1:
			l.mapping = f.value
		case 2:
			l.address = f.value
		case 3:
			err = eachField(f.bytes, func(f field) error {
				if f.number == 1 {
					l.functions = append(l.functions, f.value)
				}
				return nil
			})
		case 4:
			var a []uint64
			a, err = f.varints()
			l.attributes = append(l.attributes, a...)
		}
		return err
	})
}

// parse reads a KeyValueAndUnit. It keeps only text values.
func (a *otlpAttribute) parse(message []byte) error {
	return eachField(message, func(f field) error {
		switch f.number {
		case 1:
			a.key = f.value
		case 2:
			return eachField(f.bytes, func(f field) error {
				if f.number == 1 {
					a.value = string(f.bytes)
				}
				return nil
			})
		}
		return nil
	})
}

// attribute returns the text of the attribute with a name, among the given indices.
func (d *otlpDictionary) attribute(indices []uint64, name string) string {
	for _, i := range indices {
		if i < uint64(len(d.attributes)) && elementAt(d.strings, d.attributes[i].key) == name {
			return d.attributes[i].value
		}
	}
	return ""
}

// sample returns one stack for each time at which the sample was taken.
func (d *otlpDictionary) sample(sample otlpSample) ([]stack, error) {
	var index uint64
	var attributes, times []uint64
	err := eachField(sample.message, func(f field) (err error) {
		switch f.number {
		case 1:
			index = f.value
		case 2:
			var a []uint64
			a, err = f.varints()
			attributes = append(attributes, a...)
		case 5:
			times = append(times, f.fixed64s()...)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	s := stack{comm: d.attribute(attributes, attributeThreadName), count: 1, pid: sample.pid}
	for _, i := range elementAt(d.stacks, index) {
		location := elementAt(d.locations, i)
		switch kind := d.attribute(location.attributes, attributeFrameType); kind {
		case frameKernel:
		case frameAbort:
			s.broken, s.reason = true, frameAbort
		default:
			s.frames++
			if kind != frameNative {
				for _, f := range location.functions {
					s.script = append(s.script, elementAt(d.strings, elementAt(d.functions, f)))
				}
			}
			if location.mapping == 0 && kind == frameNative { // interpreters' frames have no mapping
				s.broken, s.reason = true, fmt.Sprintf("error %d", location.address)
			}
		}
	}
	stacks := make([]stack, 0, len(times))
	for _, ns := range times {
		s.after = time.Unix(0, int64(ns))
		s.before = s.after
		stacks = append(stacks, s)
	}
	return stacks, nil
}

// elementAt returns an element of a table, or the zero value if there is none.
func elementAt[T any](table []T, i uint64) (element T) {
	if i < uint64(len(table)) {
		element = table[i]
	}
	return element
}
