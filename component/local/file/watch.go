package file

import (
	"github.com/fsnotify/fsnotify"
	"github.com/go-kit/log"
	"github.com/go-kit/log/level"
)

// watch notices changes in the folder of a file. Without a watcher it never reports a change.
type watch struct {
	folder  string
	watcher *fsnotify.Watcher
	logger  log.Logger
}

// newWatch starts a watch if the arguments ask for one. If it cannot, only polling notices changes.
func newWatch(args Arguments, logger log.Logger) *watch {
	w := &watch{folder: folderOf(args.Filename), logger: logger}
	if args.Detector != DetectorFSNotify {
		return w
	}
	watcher, err := fsnotify.NewWatcher()
	if err == nil {
		if err = watcher.Add(w.folder); err != nil {
			_ = watcher.Close()
		}
	}
	if err != nil {
		level.Warn(logger).Log("msg", "cannot watch the file for changes, so it is read every poll_frequency",
			"folder", w.folder, "err", err)
		return w
	}
	w.watcher = watcher
	return w
}

// changed returns a channel that receives an event when a file in the folder has changed.
func (w *watch) changed() <-chan fsnotify.Event {
	if w.watcher == nil {
		return nil
	}
	return w.watcher.Events
}

// renew watches the folder that has the name now.
func (w *watch) renew() {
	if w.watcher == nil {
		return
	}
	_ = w.watcher.Remove(w.folder) // fails if the folder has gone
	if err := w.watcher.Add(w.folder); err != nil {
		level.Debug(w.logger).Log("msg", "the folder cannot be watched", "folder", w.folder, "err", err)
	}
}

func (w *watch) close() {
	if w.watcher != nil {
		_ = w.watcher.Close() // ends the watch even if it returns an error
	}
}
