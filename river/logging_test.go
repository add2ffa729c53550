package river

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/go-kit/log"
	"github.com/go-kit/log/level"
	"github.com/grafana/river/diag"
	"github.com/grafana/river/token"
	"github.com/stretchr/testify/require"
)

// lines logs one line of each level and one line without a level, and returns the output.
func lines(logger log.Logger, out *logBuffer) []string {
	before := len(out.String())
	_ = level.Debug(logger).Log("msg", "d")
	_ = level.Info(log.With(logger, "component", "a.b")).Log("msg", "i", "n", 1)
	_ = level.Warn(logger).Log("msg", "w")
	_ = level.Error(logger).Log("msg", "e", "err", fmt.Errorf("two words"))
	_ = logger.Log("msg", "none")
	text := strings.TrimSpace(out.String()[before:])
	if text == "" {
		return nil
	}
	return strings.Split(text, "\n")
}

func TestLogLevels(t *testing.T) {
	for name, want := range map[LogLevel]int{"debug": 5, "info": 4, "warn": 3, "error": 2} {
		var out logBuffer
		logger := NewLogger(&out)
		logger.Configure(LoggingArguments{Level: name, Format: "logfmt"})
		require.Len(t, lines(logger, &out), want, name)
	}
}

func TestLogFormats(t *testing.T) {
	var out logBuffer
	logger := NewLogger(&out)
	require.Empty(t, lines(logger, &out), "kept until the format is known")

	logger.Configure(LoggingArguments{Level: "info", Format: "logfmt"})
	kept := strings.Split(strings.TrimSpace(out.String()), "\n")
	require.Len(t, kept, 4)
	require.Regexp(t, `^ts=\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z level=info component=a\.b msg=i n=1$`, kept[0])
	require.Regexp(t, `^ts=\S+ level=error msg=e err="two words"$`, kept[2])

	logger.Configure(LoggingArguments{Level: "info", Format: "json"})
	var line map[string]interface{}
	require.NoError(t, json.Unmarshal([]byte(lines(logger, &out)[0]), &line))
	delete(line, "ts")
	require.Equal(t, map[string]interface{}{"level": "info", "component": "a.b", "msg": "i", "n": 1.0}, line)
}

func TestPendingLinesAreBounded(t *testing.T) {
	var out logBuffer
	logger := NewLogger(&out)
	for range 3 * maxPending {
		_ = logger.Log("msg", "x")
	}
	logger.Configure(LoggingArguments{Level: "info", Format: "logfmt"})
	require.Equal(t, maxPending, strings.Count(out.String(), "\n"))
}

// TestPasswordsAreHidden: a password in a URL does not appear in log lines, details of a component
// and errors about a configuration.
func TestPasswordsAreHidden(t *testing.T) {
	const secret = `tcp://me:secret@host:1/`
	var out bytes.Buffer
	logger := NewLogger(&out)
	logger.Configure(LoggingArguments{Level: "info", Format: "json"})
	require.NoError(t, logger.Log("err", "connecting to "+secret))
	require.Contains(t, out.String(), "tcp://me:xxxxx@host:1/")
	require.NotContains(t, out.String(), "secret")

	body, err := marshalBody(map[string]any{"host": secret})
	require.NoError(t, err)
	require.Contains(t, string(body), "tcp://me:xxxxx@host:1/")

	out.Reset()
	text := "x {\n  url = \"" + secret + "\"\n}\n"
	failed := &LoadError{
		Diagnostics: diag.Diagnostics{{
			Severity: diag.SeverityLevelError, Message: "no " + secret,
			StartPos: token.Position{Filename: "a", Line: 2, Column: 3, Offset: 6},
			EndPos:   token.Position{Filename: "a", Line: 2, Column: 5, Offset: 8},
		}},
		Files: map[string][]byte{"a": []byte(text)},
	}
	require.NoError(t, failed.Fprint(&out, false))
	require.NotContains(t, out.String(), "secret")
	require.Contains(t, out.String(), `url = "tcp://me:xxxxx@host:1/"`)
}
