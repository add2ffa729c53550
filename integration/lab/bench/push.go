package main

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/google/pprof/profile"
)

// parsePush returns the stacks in a push.v1.PushRequest.
func parsePush(request []byte) ([]stack, error) {
	var stacks []stack
	err := eachProfile(request, func(p *profile.Profile) { stacks = append(stacks, pprofStacks(p)...) })
	return stacks, err
}

// eachProfile calls use for each profile in a push.v1.PushRequest: field 1 is
// RawProfileSeries, whose field 2 is RawSample, whose field 1 is a pprof profile.
func eachProfile(request []byte, use func(*profile.Profile)) error {
	err := eachField(request, func(series field) error {
		return eachField(series.bytes, func(sample field) error {
			if sample.number != 2 {
				return nil
			}
			return eachField(sample.bytes, func(raw field) error {
				if raw.number != 1 {
					return nil
				}
				p, err := profile.ParseData(raw.bytes)
				if err != nil {
					return err
				}
				use(p)
				return nil
			})
		})
	})
	if err != nil {
		return fmt.Errorf("push request: %w", err)
	}
	return nil
}

// pprofStacks reads one of Headwater's profiles with comm = "stackframe": the outermost frame is the process's name.
func pprofStacks(p *profile.Profile) []stack {
	before := time.Unix(0, p.TimeNanos) // time of collection
	after := before.Add(-time.Duration(p.DurationNanos))
	var stacks []stack
	for _, sample := range p.Sample {
		s := stack{count: int(sample.Value[0] / max(p.Period, 1)), after: after, before: before, pid: pidOf(sample)}
		for _, location := range sample.Location {
			name := ""
			if len(location.Line) > 0 {
				name = location.Line[0].Function.Name
			}
			switch {
			case location.Mapping != nil && location.Mapping.File == "[kernel.kallsyms]":
			case ofLanguage(location):
				for _, line := range location.Line {
					s.script = append(s.script, line.Function.Name)
				}
				s.frames++
			case location.Address != 0: // frames without an address are not code
				s.frames++
				if unnamed.MatchString(name) {
					s.unnamed++
				}
			case strings.HasPrefix(name, "[incomplete: "):
				s.broken, s.reason = true, name
			default:
				s.comm = name
			}
		}
		stacks = append(stacks, s)
	}
	return stacks
}

// pidOf returns the process of a sample, from its label pid; 0 if there is none.
func pidOf(sample *profile.Sample) int {
	if len(sample.Label["pid"]) == 0 {
		return 0
	}
	pid, err := strconv.Atoi(sample.Label["pid"][0])
	if err != nil {
		return 0
	}
	return pid
}

// ofLanguage reports whether a frame belongs to a language runtime: its mapping is not a file.
func ofLanguage(l *profile.Location) bool {
	if l.Mapping == nil {
		return false
	}
	file := l.Mapping.File
	return file == "[jit]" || strings.HasPrefix(file, "[python ") || strings.HasPrefix(file, "[V8 ")
}

// unnamed matches Headwater's name for an address without a symbol.
var unnamed = regexp.MustCompile(`\+0x[0-9a-f]+$`)
