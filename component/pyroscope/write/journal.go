package write

import (
	"sync"
	"time"

	"github.com/go-kit/log"
	"github.com/go-kit/log/level"
)

// journal logs events that may come by the thousand: the first event of a kind at once, then a count at regular
// intervals as long as there are more. It is safe for concurrent use.
type journal struct {
	logger log.Logger
	every  time.Duration

	mu     sync.Mutex
	kinds  map[string]*events
	closed bool
}

// events are the events of one kind that are not logged yet.
type events struct {
	timer    *time.Timer
	profiles int
	bytes    int
	err      error // of the last one; may be nil
}

func newJournal(logger log.Logger, every time.Duration) *journal {
	return &journal{logger: logger, every: every, kinds: map[string]*events{}}
}

// warnOf records an event of the kind that concerns the given number of profiles and bytes.
func (j *journal) warnOf(kind string, profiles, bytes int, err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	e := j.kinds[kind]
	if e == nil {
		e = &events{}
		j.kinds[kind] = e
	}
	e.profiles += profiles
	e.bytes += bytes
	e.err = err
	if e.timer == nil || j.closed {
		j.write(kind, e)
	}
	if e.timer == nil && !j.closed {
		e.timer = time.AfterFunc(j.every, func() { j.endPeriod(kind) })
	}
}

// endPeriod logs the events since the last line. If there are none, it ends the series.
func (j *journal) endPeriod(kind string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	e := j.kinds[kind]
	if e == nil || j.closed {
		return
	}
	if e.profiles == 0 {
		delete(j.kinds, kind)
		return
	}
	j.write(kind, e)
	e.timer.Reset(j.every)
}

func (j *journal) write(kind string, e *events) {
	keyvals := []any{"msg", kind, "profiles", e.profiles, "bytes", e.bytes}
	if e.err != nil {
		keyvals = append(keyvals, "err", brief(e.err))
	}
	e.profiles, e.bytes, e.err = 0, 0, nil
	level.Warn(j.logger).Log(keyvals...)
}

// logInfo logs a line at once.
func (j *journal) logInfo(message string, keyvals ...any) {
	level.Info(j.logger).Log(append([]any{"msg", message}, keyvals...)...)
}

// debug logs a line at once, at the debug level.
func (j *journal) debug(message string, keyvals ...any) {
	level.Debug(j.logger).Log(append([]any{"msg", message}, keyvals...)...)
}

// advise logs a warning at once.
func (j *journal) advise(message string, keyvals ...any) {
	level.Warn(j.logger).Log(append([]any{"msg", message}, keyvals...)...)
}

// close logs the remaining events. Later events are logged one by one.
func (j *journal) close() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.closed = true
	for kind, e := range j.kinds {
		if e.timer != nil {
			e.timer.Stop()
		}
		if e.profiles > 0 {
			j.write(kind, e)
		}
	}
}

// maxErrorText bounds the shown part of a server's error text, in bytes.
const maxErrorText = 512

// brief returns the text of err, shortened if it is long.
func brief(err error) string {
	text := err.Error()
	if len(text) > maxErrorText {
		text = text[:maxErrorText] + "..."
	}
	return text
}
