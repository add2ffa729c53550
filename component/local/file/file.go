// Package file is the component local.file: the content of a file, kept current.
package file

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"sync"
	"time"

	"github.com/go-kit/log/level"
	"github.com/grafana/river/rivertypes"

	"github.com/headwater/headwater/component"
	"github.com/headwater/headwater/component/common/mailbox"
)

// Name is the component's name in River.
const Name = "local.file"

// Registration returns what a host needs to offer the component.
func Registration() component.Registration { return component.NewRegistration(Name, Exports{}, New) }

// Arguments configure local.file.
type Arguments struct {
	Filename      string        `river:"filename,attr"`
	Detector      Detector      `river:"detector,attr,optional"`
	PollFrequency time.Duration `river:"poll_frequency,attr,optional"`
	IsSecret      bool          `river:"is_secret,attr,optional"`
}

// Exports are the values of local.file that other components can refer to.
type Exports struct {
	Content rivertypes.OptionalSecret `river:"content,attr"`
}

// Detector is a way to notice that a file has changed.
type Detector string

// Ways to notice a change: kernel notifications, plus a check every poll_frequency in case one is missed; or only that
// check.
const (
	DetectorFSNotify Detector = "fsnotify"
	DetectorPoll     Detector = "poll"
)

// MarshalText implements encoding.TextMarshaler.
func (d Detector) MarshalText() ([]byte, error) { return []byte(d), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (d *Detector) UnmarshalText(text []byte) error {
	switch got := Detector(text); got {
	case DetectorFSNotify, DetectorPoll:
		*d = got
		return nil
	default:
		return fmt.Errorf("unrecognized detector %q, expected fsnotify or poll", text)
	}
}

// SetToDefault implements river.Defaulter.
func (a *Arguments) SetToDefault() {
	*a = Arguments{Detector: DetectorFSNotify, PollFrequency: time.Minute}
}

// Validate implements river.Validator.
func (a *Arguments) Validate() error {
	if a.PollFrequency <= 0 {
		return component.Refuse("poll_frequency", "must be greater than 0, got %s", a.PollFrequency)
	}
	return nil
}

// Component is a running local.file block. Its methods are safe for concurrent use.
type Component struct {
	component.Condition
	opts    component.Options
	updates *mailbox.Mailbox[Arguments]

	mu   sync.Mutex // held while the file is read and exported, so that older content is never exported last
	args Arguments
	last component.Exports
}

// New reads the file and exports its content. A file that cannot be read is an error.
func New(opts component.Options, args Arguments) (*Component, error) {
	c := &Component{opts: opts, updates: mailbox.New[Arguments]()}
	return c, c.Update(args)
}

// Update implements component.Component.
func (c *Component) Update(args component.Arguments) error {
	fresh, ok := args.(Arguments)
	if !ok {
		return fmt.Errorf("arguments of %s are a %T", Name, args)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	old := c.args
	c.args = fresh
	if err := c.readFile(); err != nil {
		c.args = old
		return err
	}
	c.updates.Send(fresh)
	return nil
}

// readFile exports the file's content, or the files of a folder, if they are new. c.mu is held.
func (c *Component) readFile() error {
	fresh, err := c.exports()
	if err != nil {
		err = fmt.Errorf("failed to read file: %w", err)
		c.SetHealth(component.HealthTypeUnhealthy, err.Error())
		return err
	}
	c.SetHealth(component.HealthTypeHealthy, "read file")
	if !reflect.DeepEqual(c.last, fresh) {
		c.last = fresh
		c.opts.OnStateChange(fresh)
	}
	return nil
}

func (c *Component) exports() (component.Exports, error) {
	if c.opts.Folders && isFolder(c.args.Filename) {
		texts, err := readFolder(c.args.Filename)
		return component.Texts{ByName: texts}, err
	}
	content, err := readFile(c.args.Filename)
	return Exports{Content: rivertypes.OptionalSecret{IsSecret: c.args.IsSecret, Value: string(content)}}, err
}

func isFolder(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.IsDir()
}

// readFolder reads the configuration files directly in a folder. Together they may be as large as one file.
func readFolder(folder string) (map[string]string, error) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil, err
	}
	texts, size := map[string]string{}, 0
	for _, entry := range entries {
		path := filepath.Join(folder, entry.Name())
		if !component.IsConfigFile(entry.Name()) || isFolder(path) {
			continue
		}
		content, err := readFile(path)
		if err != nil {
			return nil, err
		}
		if size += len(content); size > MaxFile {
			return nil, fmt.Errorf("the configuration files in %s have more than %d MiB", folder, MaxFile>>20)
		}
		texts[entry.Name()] = string(content)
	}
	return texts, nil
}

// MaxFile bounds the file, in bytes.
const MaxFile = 32 << 20

func readFile(name string) ([]byte, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	content, err := io.ReadAll(io.LimitReader(file, MaxFile+1))
	if err == nil && len(content) > MaxFile {
		err = fmt.Errorf("%s has more than %d MiB", name, MaxFile>>20)
	}
	return content, err
}

// Run implements component.Component. While the file cannot be read, its previous content stays exported.
func (c *Component) Run(ctx context.Context) error {
	w := &watch{logger: c.opts.Logger}
	defer func() { w.close() }()
	ticker := time.NewTicker(time.Hour)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case args := <-c.updates.Receive():
			ticker.Reset(args.PollFrequency)
			w.close()
			w = newWatch(args, c.opts.Logger)
		case <-ticker.C:
			w.renew() // the folder may have been replaced
		case <-w.changed():
		}
		c.mu.Lock()
		err := c.readFile()
		c.mu.Unlock()
		if err != nil {
			level.Error(c.opts.Logger).Log("msg", "the file's last content stays in use", "err", err)
		}
	}
}

// folderOf returns the folder to watch: editors and Kubernetes replace files instead of writing them, and a watch of
// the file itself does not notice a replacement.
func folderOf(filename string) string {
	if isFolder(filename) {
		return filename
	}
	return filepath.Dir(filename)
}
