// Package export writes profiles in the formats of other tools. Its input is always a pprof profile in memory, from a
// recording or from a file.
//
// Samples may have the labels pid, thread_name and thread_id, and the times when they were taken, see package record.
// Formats that show threads or times omit them if a profile has none.
package export

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/google/pprof/profile"

	"github.com/headwater/headwater/flame/pprof"
)

// Format is a format of files.
type Format struct {
	Name     string
	About    string   // its use, in a few words
	Suffixes []string // of file names
	Times    bool     // it shows the times of samples
	Write    func(w io.Writer, p *profile.Profile) error
}

// Formats lists the formats.
func Formats() []Format {
	return []Format{
		{"pprof", "go tool pprof, Pyroscope, headwater report", []string{".pb.gz", ".pprof", ".prof"}, false, Pprof},
		{"html", "a flame graph in one file, for browsers", []string{".html"}, false, HTML},
		{"folded", "one line per stack, for flamegraph.pl and grep", []string{".folded", ".collapsed"}, false, Folded},
		{"svg", "a flame graph as an image, for documents", []string{".svg"}, false, SVG},
		{"speedscope", "speedscope.app", []string{".speedscope.json"}, false, Speedscope},
		{"gecko", "profiler.firefox.com", []string{".gecko.json"}, true, Gecko},
		{"trace", "ui.perfetto.dev and chrome://tracing", []string{".trace.json"}, true, Trace},
		{"perf", "scripts that read the text of perf script", []string{".perf", ".perf.txt"}, true, PerfScript},
		{"json", "your own scripts", []string{".json"}, true, JSON},
		{"pgo", "go build -pgo", []string{".pgo"}, false, GoPGO},
		{"autofdo", "clang -fprofile-sample-use", []string{".afdo"}, false, AutoFDO},
	}
}

// ByName returns the format with the given name. The error lists all formats.
func ByName(name string) (Format, error) {
	all := Formats()
	at := slices.IndexFunc(all, func(f Format) bool { return f.Name == name })
	if at < 0 {
		return Format{}, fmt.Errorf("unknown format %q, the formats are: %s", name, strings.Join(Names(), ", "))
	}
	return all[at], nil
}

// ByFile returns the format for the suffix of a file's name. The error lists all formats.
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
	return Format{}, fmt.Errorf("the name %q has no known suffix: choose a --format, or one of the suffixes %s", name,
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
