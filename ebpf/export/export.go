// Package export writes profiles in the formats of other tools. All of them are made of the
// same thing, a pprof profile in memory: what a recording made or a file held.
//
// Samples may have the labels pid, thread_name and thread_id, and the times when they were
// taken, see package record. A format that shows threads or times does without where they
// are missing.
package export

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/google/pprof/profile"

	"github.com/headwater/headwater/ebpf/pprof"
)

// Format is a format of files.
type Format struct {
	Name     string
	About    string   // what it is for, in a few words
	Suffixes []string // of names of files
	Times    bool     // it shows when samples were taken
	Write    func(w io.Writer, p *profile.Profile) error
}

// Formats lists the formats.
func Formats() []Format {
	return []Format{
		{"pprof", "go tool pprof, Pyroscope, headwater report", []string{".pb.gz", ".pprof", ".prof"}, false, Pprof},
		{"html", "a flame graph in one file, for browsers", []string{".html"}, false, HTML},
		{"folded", "a line for each stack, for flamegraph.pl and grep", []string{".folded", ".collapsed"}, false, Folded},
		{"svg", "a flame graph as an image, for documents", []string{".svg"}, false, SVG},
		{"speedscope", "speedscope.app", []string{".speedscope.json"}, false, Speedscope},
		{"gecko", "profiler.firefox.com", []string{".gecko.json"}, true, Gecko},
		{"trace", "ui.perfetto.dev and chrome://tracing", []string{".trace.json"}, true, Trace},
		{"perf", "scripts that read the text of perf script", []string{".perf", ".perf.txt"}, true, PerfScript},
		{"json", "scripts of your own", []string{".json"}, true, JSON},
		{"pgo", "go build -pgo", []string{".pgo"}, false, GoPGO},
		{"autofdo", "clang -fprofile-sample-use", []string{".afdo"}, false, AutoFDO},
	}
}

// ByName returns the format of that name. The error lists those that there are.
func ByName(name string) (Format, error) {
	all := Formats()
	at := slices.IndexFunc(all, func(f Format) bool { return f.Name == name })
	if at < 0 {
		return Format{}, fmt.Errorf("unknown format %q, the formats are: %s", name, strings.Join(Names(), ", "))
	}
	return all[at], nil
}

// ByFile returns the format that a file's name ends like. The error lists those that there are.
func ByFile(name string) (Format, error) {
	var suffixes []string
	for _, f := range Formats() {
		for _, suffix := range f.Suffixes {
			if strings.HasSuffix(name, suffix) {
				return f, nil
			}
		}
		suffixes = append(suffixes, f.Suffixes[0]+" ("+f.Name+")")
	}
	return Format{}, fmt.Errorf("the name %q says no format; name one with --format, or let it end in %s", name,
		strings.Join(suffixes, ", "))
}

// Names lists the names of the formats.
func Names() (names []string) {
	for _, f := range Formats() {
		names = append(names, f.Name)
	}
	return names
}

// Pprof writes the profile itself, compressed.
func Pprof(w io.Writer, p *profile.Profile) error { return pprof.Write(w, p) }
