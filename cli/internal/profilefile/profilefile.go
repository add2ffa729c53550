// Package profilefile reads the input profiles of commands: files, standard input, and URLs.
package profilefile

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/pprof/profile"

	"github.com/headwater/headwater/flame/export"
)

// patience bounds the wait for a server, which may first record a profile for 60 s.
const patience = 90 * time.Second

// Read reads a profile from a file, from standard input ("-"), or from an http or https URL. The profile is in pprof's
// format, compressed or not, or has a line for each stack ("main;work 12", folded). Errors name the source.
func Read(ctx context.Context, name string, stdin io.Reader) (*profile.Profile, error) {
	content, err := content(ctx, name, stdin)
	if err != nil {
		return nil, err
	}
	return Parse(name, content)
}

// Parse parses the content of a profile like Read. It makes all text in it printable, even from untrusted sources. name
// is used in errors.
func Parse(name string, content []byte) (*profile.Profile, error) {
	if len(content) == 0 {
		return nil, fmt.Errorf("%s is empty", name)
	}
	if isFolded(content) {
		p, err := parseFolded(content)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		export.Clean(p)
		return p, nil
	}
	p, err := export.Parse(content)
	if err != nil {
		return nil, fmt.Errorf("%s is not a profile in pprof's format, nor folded stacks: %w", name, err)
	}
	export.Clean(p)
	return p, nil
}

func content(ctx context.Context, name string, stdin io.Reader) ([]byte, error) {
	in := stdin
	switch {
	case strings.HasPrefix(name, "http://"), strings.HasPrefix(name, "https://"):
		ctx, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		body, err := Fetch(ctx, http.DefaultClient, name)
		if err != nil {
			return nil, err
		}
		defer body.Close()
		in = body
	case name != "-":
		f, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		in = f
	}
	content, err := export.ReadAll(in)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", name, err)
	}
	return content, nil
}

// Fetch requests a URL. The caller must close the result. Errors contain the first part of the server's message.
func Fetch(ctx context.Context, client *http.Client, url string) (io.ReadCloser, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	answer, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	if answer.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(answer.Body, 200)) // as much as can be read
		answer.Body.Close()
		return nil, fmt.Errorf("%s: the server answered %s: %s", url, answer.Status, bytes.TrimSpace(text))
	}
	return answer.Body, nil
}

// isFolded reports whether the first line looks like a stack and a count. Compressed data may have a number before its
// first line break, but is not valid UTF-8.
func isFolded(content []byte) bool {
	line, _, _ := bytes.Cut(content, []byte{'\n'})
	_, _, err := cutCount(string(line))
	return err == nil && utf8.Valid(line)
}

// cutCount splits the count off the end of a line.
func cutCount(line string) (stack string, count int64, err error) {
	line = strings.TrimSuffix(line, "\r")
	at := strings.LastIndexByte(line, ' ')
	if at <= 0 {
		return "", 0, fmt.Errorf("no stack and count, such as main;work 12")
	}
	count, err = strconv.ParseInt(line[at+1:], 10, 64)
	if err != nil || count < 0 {
		return "", 0, fmt.Errorf("%q is not a count of samples", line[at+1:])
	}
	return line[:at], count, nil
}

// parseFolded parses lines with stacks, root first, and their counts.
func parseFolded(content []byte) (*profile.Profile, error) {
	p := &profile.Profile{SampleType: []*profile.ValueType{{Type: "samples", Unit: "count"}}}
	known := map[string]*profile.Location{}
	lines := bufio.NewScanner(bytes.NewReader(content))
	lines.Buffer(nil, len(content)+1)
	for n := 1; lines.Scan(); n++ {
		if strings.TrimSpace(lines.Text()) == "" {
			continue
		}
		stack, count, err := cutCount(lines.Text())
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		names := strings.Split(stack, ";")
		sample := &profile.Sample{Value: []int64{count}}
		for i := len(names) - 1; i >= 0; i-- {
			sample.Location = append(sample.Location, location(p, known, names[i]))
		}
		p.Sample = append(p.Sample, sample)
	}
	return p, lines.Err()
}

// location returns the location of a function that has only a name.
func location(p *profile.Profile, known map[string]*profile.Location, name string) *profile.Location {
	if l := known[name]; l != nil {
		return l
	}
	f := &profile.Function{ID: uint64(len(p.Function) + 1), Name: name}
	l := &profile.Location{ID: f.ID, Line: []profile.Line{{Function: f}}}
	p.Function, p.Location = append(p.Function, f), append(p.Location, l)
	known[name] = l
	return l
}
