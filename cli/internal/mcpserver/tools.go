package mcpserver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/google/pprof/profile"

	"github.com/headwater/headwater/cli/internal/digest"
	"github.com/headwater/headwater/flame/compare"
)

type topInput struct {
	source
	By    string  `json:"by,omitempty" jsonschema:"function (the default), process or binary"`
	Limit float64 `json:"limit,omitempty" jsonschema:"entries at most, 1 to 500, by default 20"`
}

func (s *Server) answerTop(ctx context.Context, in topInput) (string, error) {
	limit, err := whole("limit", in.Limit, 20, 1, 500)
	if err != nil {
		return "", err
	}
	by := in.By
	if by == "" {
		by = "function"
	}
	if by != "function" && by != "process" && by != "binary" {
		return "", fmt.Errorf("by must be function, process or binary, got %.100q", by)
	}
	var b strings.Builder
	d, err := s.digest(ctx, in.source)
	if err != nil {
		return "", err
	}
	return written(&b, d.WriteTop(&b, by, limit))
}

type summaryInput struct {
	source
	MaxLines float64 `json:"max_lines,omitempty" jsonschema:"lines of the answer at most, 20 to 1000, by default 60"`
}

func (s *Server) summary(ctx context.Context, in summaryInput) (string, error) {
	lines, err := whole("max_lines", in.MaxLines, 60, digest.MinLines, digest.MaxLines)
	if err != nil {
		return "", err
	}
	d, err := s.digest(ctx, in.source)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	return written(&b, d.WriteText(&b, lines))
}

type pathInput struct {
	source
	Function string  `json:"function" jsonschema:"name of the function, or a unique part of it"`
	MaxLines float64 `json:"max_lines,omitempty" jsonschema:"lines of the answer at most, 20 to 1000, by default 60"`
}

func (s *Server) pathThrough(ctx context.Context, in pathInput) (string, error) {
	lines, err := whole("max_lines", in.MaxLines, 60, digest.MinLines, digest.MaxLines)
	if err != nil {
		return "", err
	}
	if in.Function == "" {
		return "", errors.New("function must not be empty")
	}
	d, err := s.digest(ctx, in.source)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	return written(&b, d.WriteThrough(&b, in.Function, lines))
}

type recordInput struct {
	PID     float64 `json:"pid,omitempty" jsonschema:"process to record; without it the whole host"`
	Seconds float64 `json:"seconds,omitempty" jsonschema:"seconds to record, 1 to 30, by default 5"`
	Rate    float64 `json:"rate,omitempty" jsonschema:"samples per second and CPU, 1 to 999, by default 99"`
}

func (s *Server) record(ctx context.Context, in recordInput) (string, error) {
	p, err := s.fresh(ctx, source{PID: in.PID, Seconds: in.Seconds, Rate: in.Rate})
	if err != nil {
		return "", err
	}
	d, err := digest.Of(p)
	if err != nil {
		return "", err
	}
	name, err := s.kept.keepProfile(p)
	if err != nil {
		return "", err
	}
	b := &strings.Builder{}
	b.WriteString(name + "\n")
	return written(b, d.WriteText(b, digest.MinLines))
}

type diffInput struct {
	Base  string  `json:"base" jsonschema:"earlier profile: name of a recording, file or URL"`
	New   string  `json:"new" jsonschema:"later profile: name of a recording, file or URL"`
	Per   string  `json:"per,omitempty" jsonschema:"cpu: shares (the default); second; run; count=N: per unit of work"`
	Limit float64 `json:"limit,omitempty" jsonschema:"functions at most: 1 to 500, by default 20"`
}

func (s *Server) answerDiff(ctx context.Context, in diffInput) (string, error) {
	limit, err := whole("limit", in.Limit, 20, 1, 500)
	if err != nil {
		return "", err
	}
	o := compare.DefaultOptions()
	if err := o.SetPer(cmp.Or(in.Per, string(compare.PerCPU))); err != nil {
		return "", err
	}
	if in.Base == "" || in.New == "" {
		return "", errors.New("base and new must not be empty: each is a recording, a file or a URL")
	}
	var profiles [2]*profile.Profile
	b := &strings.Builder{}
	for i, name := range []string{in.Base, in.New} {
		if profiles[i], err = s.readProfile(ctx, name); err != nil {
			return "", err
		}
		d, err := digest.Of(profiles[i])
		if err != nil {
			return "", fmt.Errorf("%.200s: %w", name, err)
		}
		b.WriteString([]string{"base ", "new "}[i])
		if err := d.WriteCompleteness(b); err != nil {
			return "", err
		}
	}
	r, err := compare.Profiles(profiles[:1], profiles[1:], o)
	if err != nil {
		return "", err
	}
	return written(b, s.options.Diff(b, r, []string{in.Base, in.New}, limit))
}

type stackInput struct {
	PID      float64 `json:"pid" jsonschema:"the process"`
	MaxLines float64 `json:"max_lines,omitempty" jsonschema:"lines of the answer at most, 20 to 1000, by default 300"`
}

func (s *Server) stack(ctx context.Context, in stackInput) (string, error) {
	if in.PID == 0 {
		return "", errors.New("pid must be a process's ID, got 0")
	}
	pid, err := whole("pid", in.PID, 0, 1, math.MaxInt32)
	if err != nil {
		return "", err
	}
	most, err := whole("max_lines", in.MaxLines, 300, digest.MinLines, digest.MaxLines)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	if err := s.options.Stacks(ctx, &b, uint32(pid)); err != nil {
		return "", err
	}
	lines := strings.SplitAfter(b.String(), "\n")
	if len(lines) <= most {
		return b.String(), nil
	}
	return strings.Join(lines[:most-1], "") + fmt.Sprintf("(and %d more lines)\n", len(lines)-most), nil
}

// digest returns the digest of a source.
func (s *Server) digest(ctx context.Context, of source) (*digest.Digest, error) {
	p, err := s.getProfile(ctx, of)
	if err != nil {
		return nil, err
	}
	return digest.Of(p)
}

func written(b *strings.Builder, err error) (string, error) {
	if err != nil {
		return "", err
	}
	return b.String(), nil
}
