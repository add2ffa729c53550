package mcpserver

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/google/pprof/profile"

	"github.com/headwater/headwater/cli/internal/profilefile"
)

// Limits of a call.
const (
	maxSeconds  = 30
	maxRate     = 999
	maxContent  = 16 << 20  // size of a file or URL
	maxInflated = 128 << 20 // their decompressed size
	patience    = 60 * time.Second
)

// source selects the profile for a call.
type source struct {
	Profile string  `json:"profile,omitempty" jsonschema:"name of a recording, file or URL; default: a new recording"`
	PID     float64 `json:"pid,omitempty" jsonschema:"record this process; without it, the whole host"`
	Seconds float64 `json:"seconds,omitempty" jsonschema:"seconds to record: 1 to 30, by default 5"`
	Rate    float64 `json:"rate,omitempty" jsonschema:"samples per second and CPU: 1 to 999, by default 99"`
}

// getProfile returns the profile.
func (s *Server) getProfile(ctx context.Context, of source) (*profile.Profile, error) {
	if of.Profile == "" {
		return s.fresh(ctx, of)
	}
	if of.PID != 0 || of.Seconds != 0 || of.Rate != 0 {
		return nil, errors.New("pid, seconds and rate are for a fresh recording: remove them, or remove profile")
	}
	return s.readProfile(ctx, of.Profile)
}

// fresh makes a recording.
func (s *Server) fresh(ctx context.Context, of source) (*profile.Profile, error) {
	seconds, err := whole("seconds", of.Seconds, 5, 1, maxSeconds)
	if err != nil {
		return nil, err
	}
	rate, err := whole("rate", of.Rate, 99, 1, maxRate)
	if err != nil {
		return nil, err
	}
	pid, err := whole("pid", of.PID, 0, 1, math.MaxInt32)
	if err != nil {
		return nil, err
	}
	return s.options.Record(ctx, uint32(pid), rate, time.Duration(seconds)*time.Second)
}

// readProfile returns a kept profile, or the profile of a file or URL.
func (s *Server) readProfile(ctx context.Context, name string) (*profile.Profile, error) {
	if p, err := s.kept.profileNamed(name); p != nil || err != nil {
		return p, err
	}
	var content []byte
	var err error
	switch {
	case strings.HasPrefix(name, "http://"), strings.HasPrefix(name, "https://"):
		content, err = s.fetch(ctx, name)
	case s.options.Files == nil:
		return nil, fmt.Errorf("%.100q is no recording, and files are not allowed: headwater mcp --files DIR allows them",
			name)
	default:
		content, err = s.openProfile(name)
	}
	if err != nil {
		return nil, err
	}
	if content, err = inflate(content); err != nil {
		return nil, fmt.Errorf("%.200s: %w", name, err)
	}
	p, err := profilefile.Parse(name, content)
	if err != nil { // its text may quote the content, which may be arbitrary
		return nil, fmt.Errorf("%.200s is not a profile in pprof's format, nor folded stacks", name)
	}
	return p, nil
}

// openProfile reads a file of the folder. It reads only regular files, and does not block on a FIFO.
func (s *Server) openProfile(name string) ([]byte, error) {
	f, err := s.options.Files.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("in the folder of --files: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%.200s is no regular file", name)
	}
	return readBounded(f, name)
}

// fetch reads an allowed URL.
func (s *Server) fetch(ctx context.Context, name string) ([]byte, error) {
	if err := s.allowed(name); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	client := http.Client{CheckRedirect: func(r *http.Request, via []*http.Request) error {
		if len(via) >= 10 {
			return errors.New("too many redirects")
		}
		return s.allowed(r.URL.String())
	}}
	body, err := profilefile.Fetch(ctx, &client, name)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	return readBounded(body, name)
}

// allowed returns an error for a URL that may not be read.
func (s *Server) allowed(name string) error {
	asked, err := url.Parse(name)
	if err != nil {
		return err
	}
	for _, prefix := range s.options.URLs {
		base, err := url.Parse(prefix)
		if err == nil && asked.User == nil && asked.Scheme == base.Scheme && asked.Host == base.Host &&
			below(asked.Path, base.Path) {
			return nil
		}
	}
	return fmt.Errorf("reading %.200s is not allowed: headwater mcp --url URL allows URLs that start with URL", name)
}

// below reports whether a path is a folder or is inside it.
func below(asked, folder string) bool {
	folder = strings.TrimSuffix(folder, "/")
	return !strings.Contains(asked, "..") && (asked == folder || strings.HasPrefix(asked, folder+"/"))
}

func readBounded(r io.Reader, name string) ([]byte, error) {
	content, err := io.ReadAll(io.LimitReader(r, maxContent+1))
	if err == nil && len(content) > maxContent {
		err = fmt.Errorf("it has more than %d MiB", maxContent>>20)
	}
	if err != nil {
		return nil, fmt.Errorf("reading %.200s: %w", name, err)
	}
	return content, nil
}

// inflate decompresses gzip content, and returns other content unchanged.
func inflate(content []byte) ([]byte, error) {
	if !bytes.HasPrefix(content, []byte{0x1f, 0x8b}) {
		return content, nil
	}
	r, err := gzip.NewReader(bytes.NewReader(content))
	if err != nil {
		return nil, err
	}
	out, err := io.ReadAll(io.LimitReader(r, maxInflated+1))
	if err == nil && len(out) > maxInflated {
		err = fmt.Errorf("it has more than %d MiB", maxInflated>>20)
	}
	return out, err
}
