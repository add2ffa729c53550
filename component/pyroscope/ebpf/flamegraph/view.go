package flamegraph

import (
	"bytes"
	"errors"
	"html/template"
	"net/http"
	"os/exec"
	"strings"
	"time"

	"github.com/headwater/headwater/flame/pprof"
)

// pprofView is google/pprof's web interface for one selection, with an added line at the top that describes the
// selection and links back to the overview.
type pprofView struct {
	handlers map[string]http.Handler
	download []byte // the merged profile, gzip-compressed
	name     string // file name of the download
	banner   []byte // HTML
	colors   map[string]int
	bytes    int64 // approximate memory use
}

// size implements sized.
func (v *pprofView) size() int64 { return v.bytes }

// Approximate memory use of a sample and a location of a decoded profile, in bytes.
const (
	bytesPerSample   = 400
	bytesPerLocation = 300
)

// banner is the content of a view's first line.
type banner struct {
	Overview string // relative link
	Target   string
	Process  string
	From, To time.Time
	Used, Of int // profiles
	Samples  uint64
}

// newView merges the profiles and starts pprof's web interface for the sum.
func newView(entries []*kept, s selection) (*pprofView, error) {
	sum, err := merge(entries, s, maxMergedSamples)
	if err != nil {
		return nil, err
	}
	used := entries[len(entries)-sum.used:]
	pprof.SetTitle(sum.profile, s.titleOf(targetName(used, s.target)))
	var file bytes.Buffer
	if err := sum.profile.Write(&file); err != nil {
		return nil, err
	}
	b := banner{
		Overview: "../../?" + template.URLQueryEscaper("target") + "=" + template.URLQueryEscaper(s.target),
		Target:   targetName(used, s.target),
		Process:  processName(s),
		From:     time.UnixMilli(used[0].start),
		To:       time.UnixMilli(used[len(used)-1].end),
		Used:     sum.used,
		Of:       sum.of,
	}
	b.Samples = samplesOf(used, s, pprofTotal(sum.profile))
	var line bytes.Buffer
	if err := templates().ExecuteTemplate(&line, "banner", b); err != nil {
		return nil, err
	}
	demangle(sum.profile)
	v := &pprofView{
		download: file.Bytes(), name: fileName(b.Target, b.To),
		banner: line.Bytes(), colors: fileColors(sum.profile),
		bytes: int64(file.Len() + len(sum.profile.Sample)*bytesPerSample + len(sum.profile.Location)*bytesPerLocation),
	}
	if s.root != "" {
		addRoots(sum.profile, s.root)
	}
	v.handlers, err = pprofHandlers(sum.profile)
	return v, err
}

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

// fileName returns a name for a downloaded profile.
func fileName(target string, end time.Time) string { return fileStem(target, end) + ".pb.gz" }

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

// serve answers a request for one of pprof's paths, such as /flamegraph.
func (v *pprofView) serve(w http.ResponseWriter, r *http.Request, path string) error {
	switch path {
	case "/download":
		w.Header().Set("Content-Type", "application/vnd.google.protobuf+gzip")
		w.Header().Set("Content-Disposition", `attachment; filename="`+v.name+`"`)
		_, err := w.Write(v.download)
		return err
	case "/graph":
		if !haveDot() {
			return errNoDot
		}
	case "/", "/flamegraph", "/top", "/peek":
	default:
		// Sources and disassembly would need files of the profiled machine, and saved settings would be written to the
		// home directory.
		return errNotServed
	}
	answer := &htmlCapture{ResponseWriter: w}
	v.handlers[path].ServeHTTP(answer, r)
	return answer.finish(v)
}

var (
	errNoDot = errors.New(
		"the graph view needs the program dot, which is not installed (Debian: apt-get install graphviz)")
	errNotServed = errors.New("this view is not part of the page")
)

// haveDot reports whether Graphviz is installed.
func haveDot() bool {
	_, err := exec.LookPath("dot")
	return err == nil
}

// htmlCapture buffers one of pprof's pages to add to it.
type htmlCapture struct {
	http.ResponseWriter
	status int
	body   bytes.Buffer
}

func (c *htmlCapture) WriteHeader(status int)      { c.status = status }
func (c *htmlCapture) Write(b []byte) (int, error) { return c.body.Write(b) }

// finish sends the page, with the banner at the start of its body and the style at the end of its head. It sends a page
// without these elements unchanged.
func (c *htmlCapture) finish(v *pprofView) error {
	page := c.body.Bytes()
	if strings.HasPrefix(c.Header().Get("Content-Type"), "text/html") {
		c.Header().Set("Content-Type", "text/html; charset=utf-8")
		page = bytes.Replace(page, []byte("<body>"), append([]byte("<body>\n"), v.banner...), 1)
		page = bytes.Replace(page, []byte("</head>"), append(viewHead(), "</head>"...), 1)
		page = adaptStacks(page, v.colors)
		page = bytes.Replace(page, []byte("<html>"), []byte(`<html lang="en">`), 1)
	}
	if c.status != 0 {
		c.ResponseWriter.WriteHeader(c.status)
	}
	_, err := c.ResponseWriter.Write(page)
	return err
}
