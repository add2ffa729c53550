package discovery

import (
	"context"
	"log/slog"
	"strings"

	"github.com/go-kit/log"
	"github.com/go-kit/log/level"
)

// NewLogger returns a logger that writes to logger, for libraries that use log/slog.
func NewLogger(logger log.Logger) *slog.Logger { return newLogger(logger, nil) }

// newLogger returns a logger for Prometheus' libraries that writes to logger, and
// calls failed with the text of every error. failed may be nil.
func newLogger(logger log.Logger, failed func(message string)) *slog.Logger {
	if logger == nil {
		logger = log.NewNopLogger()
	}
	return slog.New(&handler{logger: logger, failed: failed})
}

// handler writes slog's records to a go-kit logger.
type handler struct {
	logger log.Logger
	prefix string // of attributes' names, from the open groups
	failed func(string)
}

// Enabled implements slog.Handler. The go-kit logger filters by level.
func (h *handler) Enabled(context.Context, slog.Level) bool { return true }

// Handle implements slog.Handler.
func (h *handler) Handle(_ context.Context, r slog.Record) error {
	keyvals := []any{"msg", r.Message}
	text := r.Message
	r.Attrs(func(a slog.Attr) bool {
		keyvals = append(keyvals, h.prefix+a.Key, value(a))
		if a.Key == "err" || a.Key == "error" {
			text += ": " + a.Value.String()
		}
		return true
	})
	if r.Level >= slog.LevelError && h.failed != nil {
		h.failed(strings.ToValidUTF8(text, "\uFFFD"))
	}
	return h.leveled(r.Level).Log(keyvals...)
}

func (h *handler) leveled(l slog.Level) log.Logger {
	switch {
	case l >= slog.LevelError:
		return level.Error(h.logger)
	case l >= slog.LevelWarn:
		return level.Warn(h.logger)
	case l >= slog.LevelInfo:
		return level.Info(h.logger)
	default:
		return level.Debug(h.logger)
	}
}

// WithAttrs implements slog.Handler.
func (h *handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	keyvals := make([]any, 0, 2*len(attrs))
	for _, a := range attrs {
		keyvals = append(keyvals, h.prefix+a.Key, value(a))
	}
	return &handler{logger: log.With(h.logger, keyvals...), prefix: h.prefix, failed: h.failed}
}

// WithGroup implements slog.Handler.
func (h *handler) WithGroup(name string) slog.Handler {
	return &handler{logger: h.logger, prefix: h.prefix + name + ".", failed: h.failed}
}

// value returns the attribute's value as text, which every log format can show.
func value(a slog.Attr) string { return a.Value.Resolve().String() }
