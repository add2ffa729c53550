// Package filematch is the component local.file_match: the files that match glob
// patterns.
package filematch

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/bmatcuk/doublestar/v4"
	"github.com/go-kit/log/level"

	"github.com/headwater/headwater/component"
	"github.com/headwater/headwater/component/common/mailbox"
	"github.com/headwater/headwater/component/discovery"
)

// Name is the component's name in River.
const Name = "local.file_match"

// Labels of an input target that hold patterns. The output has one target per file, with the file's path in the label
// __path__ and all other labels unchanged.
const (
	labelPath    = "__path__"
	labelExclude = "__path_exclude__"
)

// Registration returns what a host needs to offer the component.
func Registration() component.Registration {
	return component.NewRegistration(Name, discovery.Exports{},
		func(opts component.Options, args Arguments) (*Component, error) {
			c := &Component{opts: opts, updates: mailbox.New[Arguments]()}
			return c, c.Update(args)
		})
}

// Arguments configure local.file_match.
type Arguments struct {
	PathTargets []discovery.Target `river:"path_targets,attr"`
	SyncPeriod  time.Duration      `river:"sync_period,attr,optional"`

	// IgnoreOlderThan leaves out files that were last written longer ago than this. 0 leaves out no files.
	IgnoreOlderThan time.Duration `river:"ignore_older_than,attr,optional"`
}

// SetToDefault implements river.Defaulter.
func (a *Arguments) SetToDefault() { *a = Arguments{SyncPeriod: 10 * time.Second} }

// Validate implements river.Validator.
func (a *Arguments) Validate() error {
	if a.SyncPeriod <= 0 {
		return component.Refuse("sync_period", "must be greater than 0, got %s", a.SyncPeriod)
	}
	if a.IgnoreOlderThan < 0 {
		return component.Refuse("ignore_older_than", "must not be negative, got %s", a.IgnoreOlderThan)
	}
	for i, t := range a.PathTargets {
		for _, label := range []string{labelPath, labelExclude} {
			if !doublestar.ValidatePathPattern(t[label]) {
				return fmt.Errorf("target %d of path_targets: %s is not a valid pattern: %q", i+1, label, t[label])
			}
		}
	}
	return nil
}

// Component is a running local.file_match block. Its methods are safe for
// concurrent use.
type Component struct {
	opts    component.Options
	updates *mailbox.Mailbox[Arguments]
}

// Update implements component.Component.
func (c *Component) Update(args component.Arguments) error { return c.updates.Update(args) }

// Run implements component.Component.
func (c *Component) Run(ctx context.Context) error {
	for args := range c.updates.Turns(ctx, func(args Arguments) time.Duration { return args.SyncPeriod }) {
		found, err := match(args.PathTargets, args.IgnoreOlderThan)
		if err != nil {
			level.Error(c.opts.Logger).Log("msg", "some folders could not be searched", "err", err)
		}
		c.opts.OnStateChange(discovery.Exports{Targets: found})
	}
	return nil
}

// match returns a target for each file that a pattern matches, sorted by path. Unless oldest is 0, it leaves out files
// that were last written longer ago than oldest.
func match(patterns []discovery.Target, oldest time.Duration) ([]discovery.Target, error) {
	found := []discovery.Target{}
	var errs []error
	for _, pattern := range patterns {
		files, err := doublestar.FilepathGlob(pattern[labelPath], doublestar.WithFilesOnly())
		if err != nil {
			errs = append(errs, fmt.Errorf("pattern %q: %w", pattern[labelPath], err))
			continue
		}
		slices.Sort(files)
		for _, file := range files {
			if excluded(pattern[labelExclude], file) || oldest > 0 && older(file, oldest) {
				continue
			}
			if absolute, err := filepath.Abs(file); err == nil {
				file = absolute
			}
			t := maps.Clone(pattern)
			t[labelPath] = file
			found = append(found, t)
		}
	}
	return found, errors.Join(errs...)
}

// older reports whether a file was last written longer ago than limit, or no longer exists.
func older(file string, limit time.Duration) bool {
	info, err := os.Stat(file)
	return err != nil || time.Since(info.ModTime()) > limit
}

func excluded(pattern, file string) bool {
	if pattern == "" {
		return false
	}
	hit, err := doublestar.PathMatch(pattern, file)
	return err == nil && hit
}
