package git

import (
	"context"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/go-kit/log/level"
	"github.com/grafana/river/rivertypes"

	"github.com/headwater/headwater/component"
)

// Registration returns the registration of remote.git.
func Registration() component.Registration {
	return component.NewRegistration("remote.git", Exports{}, newComponent).Answering("a Git repository")
}

// Component reads one file of a repository.
type Component struct {
	component.Condition
	options component.Options
	changed chan struct{} // a token: there are new arguments

	pullMu sync.Mutex // held while git runs

	mu        sync.Mutex
	arguments Arguments
	commit    string
}

func newComponent(options component.Options, arguments Arguments) (*Component, error) {
	c := &Component{options: options, changed: make(chan struct{}, 1)}
	return c, c.Update(arguments)
}

// Update implements component.Component. It reads the file before it returns. An unreachable repository is no error if
// an earlier copy contains the file.
func (c *Component) Update(arguments component.Arguments) error {
	next := arguments.(Arguments)
	c.pullMu.Lock()
	defer c.pullMu.Unlock()
	if err := c.pullFile(context.Background(), next); err != nil {
		return err
	}
	c.mu.Lock()
	c.arguments = next
	c.mu.Unlock()
	select {
	case c.changed <- struct{}{}:
	default: // a token is there already
	}
	return nil
}

// pullFile fetches and reads the file. pullMu must be held.
func (c *Component) pullFile(ctx context.Context, arguments Arguments) error {
	repository := newRepository(c.options.DataPath, arguments)
	fetched := repository.fetch(ctx)
	exports, commit, err := c.readExports(ctx, repository)
	switch {
	case fetched != nil && err != nil:
		err = fetched // the failed fetch is the cause
	case fetched != nil && ctx.Err() == nil:
		level.Error(c.options.Logger).Log("msg", "the repository cannot be reached; its last copy is used", "err", fetched)
	}
	switch {
	case err != nil:
		c.SetHealth(component.HealthTypeUnhealthy, err.Error())
		return err
	case fetched != nil:
		c.SetHealth(component.HealthTypeUnhealthy, fetched.Error())
	default:
		c.SetHealth(component.HealthTypeHealthy, "at commit "+commit)
	}
	c.mu.Lock()
	c.commit = commit
	c.mu.Unlock()
	c.options.OnStateChange(exports)
	return nil
}

// readExports returns the file at the revision, or the files of a folder, and the commit, from the clone.
func (c *Component) readExports(
	ctx context.Context, r *repository,
) (exports component.Exports, commit string, err error) {
	if commit, err = r.resolve(ctx); err != nil {
		return nil, "", err
	}
	if !c.options.Folders {
		content, err := r.readFile(ctx, commit, r.clonePath())
		return Exports{Content: rivertypes.OptionalSecret{Value: content}}, commit, err
	}
	var texts component.Texts
	folder := r.clonePath()
	if r.isFolder(ctx, commit, folder) {
		texts.ByName, err = r.readFolder(ctx, commit, folder)
	} else {
		var text string
		text, err = r.readFile(ctx, commit, folder)
		texts.ByName, folder = map[string]string{"": text}, path.Dir(folder)
	}
	if err == nil && usesFolder(texts.ByName) {
		texts.Folder, err = r.checkOut(ctx, commit)
		texts.Folder = filepath.Join(texts.Folder, folder)
	}
	return texts, commit, err
}

// usesFolder reports whether a text may need the files next to it: a module finds them by module_path.
func usesFolder(texts map[string]string) bool {
	for _, text := range texts {
		if strings.Contains(text, "module_path") {
			return true
		}
	}
	return false
}

// Run implements component.Component: it pulls at the configured frequency.
func (c *Component) Run(ctx context.Context) error {
	timer := time.NewTimer(0)
	timer.Stop()
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-c.changed:
		case <-timer.C:
			c.pullMu.Lock()
			err := c.pullFile(ctx, c.current())
			c.pullMu.Unlock()
			if err != nil && ctx.Err() == nil {
				level.Error(c.options.Logger).Log("msg", "failed to read the repository", "err", err)
			}
		}
		timer.Stop()
		if frequency := c.current().PullFrequency; frequency > 0 {
			timer.Reset(frequency)
		}
	}
}

func (c *Component) current() Arguments {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.arguments
}

type debugInfo struct {
	SHA string `river:"sha,attr"`
}

// DebugInfo implements component.DebugComponent.
func (c *Component) DebugInfo() interface{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	return debugInfo{SHA: c.commit}
}

var (
	_ component.DebugComponent  = (*Component)(nil)
	_ component.HealthComponent = (*Component)(nil)
)
