package server

import (
	"strings"
	"time"
)

// targetName returns the name of the selected target for users.
func targetName(entries []*kept, id string) string {
	if id == allTargets || len(entries) == 0 {
		return "all targets"
	}
	return entries[0].target.name
}

func processName(s selection) string {
	name := s.processName()
	for _, part := range []struct{ about, text string }{
		{"thread ", s.thread}, {"kind ", s.kind}, {"focus ", s.focus}, {"without ", s.ignore},
	} {
		if part.text != "" {
			name = strings.TrimPrefix(name+", "+part.about+part.text, ", ")
		}
	}
	return name
}

// processName returns the name of the selected processes for users, "" for all.
func (s selection) processName() string {
	switch {
	case s.build != "":
		return s.exe + ", build " + shortBuild(s.build)
	case s.comm == "" && s.pid == 0:
		return ""
	case s.pid == 0:
		return s.comm
	default:
		return strings.TrimSpace(s.comm + " " + pidText(s.pid))
	}
}

// titleOf returns pprof's title for a selection of a target.
func (s selection) titleOf(target string) string {
	if s.comm != "" {
		return s.comm
	}
	return target
}

// fileStem returns a file name for a target, without the extension.
func fileStem(target string, end time.Time) string {
	safe := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '.' {
			return r
		}
		return '_'
	}, strings.Trim(target, "/"))
	return safe[:min(len(safe), 100)] + "-" + end.UTC().Format("20060102T150405Z")
}
