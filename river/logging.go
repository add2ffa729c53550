package river

import (
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/go-kit/log"
	"github.com/go-kit/log/level"

	"github.com/headwater/headwater/component"
	"github.com/headwater/headwater/component/common/config"
)

// LogLevel is the least severe level that is logged: debug, info, warn or error.
type LogLevel string

// UnmarshalText implements encoding.TextUnmarshaler.
func (l *LogLevel) UnmarshalText(text []byte) error {
	if severity(string(text)) == 0 {
		return fmt.Errorf("unrecognized log level %q", text)
	}
	*l = LogLevel(text)
	return nil
}

// MarshalText implements encoding.TextMarshaler.
func (l LogLevel) MarshalText() ([]byte, error) { return []byte(l), nil }

// severity ranks the names of levels; 0 means that the name is not a level.
func severity(name string) int {
	switch name {
	case level.DebugValue().String():
		return 1
	case level.InfoValue().String():
		return 2
	case level.WarnValue().String():
		return 3
	case level.ErrorValue().String():
		return 4
	default:
		return 0
	}
}

// LogFormat is how lines are written: logfmt or json.
type LogFormat string

// UnmarshalText implements encoding.TextUnmarshaler.
func (f *LogFormat) UnmarshalText(text []byte) error {
	switch string(text) {
	case "logfmt", "json":
		*f = LogFormat(text)
		return nil
	default:
		return fmt.Errorf("unrecognized log format %q", text)
	}
}

// MarshalText implements encoding.TextMarshaler.
func (f LogFormat) MarshalText() ([]byte, error) { return []byte(f), nil }

// LoggingArguments is the logging block.
type LoggingArguments struct {
	Level       LogLevel      `river:"level,attr,optional"`
	Format      LogFormat     `river:"format,attr,optional"`
	Destination string        `river:"destination,attr,optional"` // Alloy's; stderr is the only one here
	WriteTo     []interface{} `river:"write_to,attr,optional"`
}

// SetToDefault implements river.Defaulter.
func (a *LoggingArguments) SetToDefault() {
	*a = LoggingArguments{Level: "info", Format: "logfmt", Destination: "stderr"}
}

// Validate implements river.Validator.
func (a *LoggingArguments) Validate() error {
	if a.Destination != "stderr" {
		return component.Refuse("destination", "must be stderr, got %q", a.Destination)
	}
	if len(a.WriteTo) > 0 {
		return errors.New("write_to is not supported: there is no component here that receives logs")
	}
	return nil
}

// maxPending bounds the lines kept until the logging block is known.
const maxPending = 1000

// Logger writes log lines in the level and format of the logging block. Lines
// that come before the first Configure are kept until then, at most 1,000 of
// them. It is safe for concurrent use.
type Logger struct {
	out io.Writer

	mu      sync.Mutex
	lines   log.Logger // nil before the first Configure
	least   int        // the severity from which on lines are written
	pending [][]interface{}
}

// NewLogger returns a Logger that writes to w, one Write call a line. Passwords in URLs
// are left out.
func NewLogger(w io.Writer) *Logger { return &Logger{out: hidingWriter{w}} }

// hidingWriter leaves out the passwords of URLs in what it writes.
type hidingWriter struct{ to io.Writer }

// Write implements io.Writer. line is a whole one.
func (h hidingWriter) Write(line []byte) (int, error) {
	if _, err := h.to.Write(config.HidePasswords(line)); err != nil {
		return 0, err
	}
	return len(line), nil
}

// Configure sets level and format for this and all later lines, and writes the
// lines kept so far.
func (l *Logger) Configure(arguments LoggingArguments) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.least = severity(string(arguments.Level))
	if arguments.Format == "json" {
		l.lines = log.NewJSONLogger(l.out)
	} else {
		l.lines = log.NewLogfmtLogger(l.out)
	}
	for _, keyvals := range l.pending {
		_ = l.write(keyvals) // without standard error there is nowhere to log it
	}
	l.pending = nil
}

// Log implements log.Logger. A line without a level is always written.
func (l *Logger) Log(keyvals ...interface{}) error {
	line := make([]interface{}, 0, len(keyvals)+2)
	line = append(line, "ts", time.Now().UTC().Format(time.RFC3339Nano))
	line = append(line, keyvals...)

	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lines == nil {
		if len(l.pending) < maxPending {
			l.pending = append(l.pending, line)
		}
		return nil
	}
	return l.write(line)
}

func (l *Logger) write(line []interface{}) error {
	for i := 0; i+1 < len(line); i += 2 {
		if line[i] != level.Key() {
			continue
		}
		if value, ok := line[i+1].(level.Value); ok && severity(value.String()) < l.least {
			return nil
		}
	}
	return l.lines.Log(line...)
}
