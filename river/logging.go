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

// LogLevel is the lowest level that is logged: debug, info, warn or error.
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

// LogFormat is the format of log lines: logfmt or json.
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
	Destination string        `river:"destination,attr,optional"` // from Alloy; only stderr is supported
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
		return errors.New("write_to is not supported: Headwater has no component that receives logs")
	}
	return nil
}

// maxPending bounds the lines kept before the first Configure.
const maxPending = 1000

// Logger writes log lines with the level and format of the logging block. It keeps lines logged
// before the first Configure until then, at most 1,000. It is safe for concurrent use.
type Logger struct {
	out io.Writer

	mu      sync.Mutex
	lines   log.Logger // nil before the first Configure
	least   int        // minimum severity of lines to write
	pending [][]interface{}
}

// NewLogger returns a Logger that writes to w, with one Write call per line. It removes passwords
// from URLs.
func NewLogger(w io.Writer) *Logger { return &Logger{out: hidingWriter{w}} }

// hidingWriter removes the passwords of URLs from its output.
type hidingWriter struct{ to io.Writer }

// Write implements io.Writer. line must be a whole line.
func (h hidingWriter) Write(line []byte) (int, error) {
	if _, err := h.to.Write(config.HidePasswords(line)); err != nil {
		return 0, err
	}
	return len(line), nil
}

// Configure sets the level and format of all later lines, and writes the lines kept so far.
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
		_ = l.write(keyvals) // without standard error there is no place to log this
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
