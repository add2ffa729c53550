package ebpf

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/grafana/river/encoding/riverjson"
	"github.com/prometheus/common/expfmt"
	"github.com/stretchr/testify/require"

	"github.com/headwater/headwater/ebpf"
)

var update = flag.Bool("update", false, "write the golden file again")

// sessionStats has another value in each field; those that are not named here get theirs by
// the table.
func sessionStats() *ebpf.Stats {
	s := &ebpf.Stats{
		SamplerStats: ebpf.SamplerStats{
			Expected: 101, Delivered: 102, Idle: 103, Ignored: 104, RecordsLost: 105,
			Lost: map[string]uint64{
				ebpf.LostToFullLogs: 106, ebpf.LostToThrottling: 107, ebpf.LostToSkippedTimers: 108, ebpf.LostToTheEnd: 109,
			},
			StackCopies: 112, StackCopyBytes: 113, StacksUncopied: 114,
			Processes: 115, Executables: 116,
			Pages: 117, Rows: 118, RowBytes: 119, UsedBytes: 120, TableBytes: 121, PagesEvicted: 122,
			Chains: map[string]uint64{"whole": 141, "no_thread": 142}, RuntimeFrames: map[string]uint64{"python 3.11": 143},
			RuntimeUnnamed: map[string]uint64{"PHP": 144},
			ChainsUnplaced: 145, CodesCarried: 146, CodesUncarried: 147,
			Languages: []ebpf.LanguageStats{
				{Name: "python 3.11", Named: 148, NotRead: 149}, {Name: "PHP", NotNamed: 150, Hint: "not yet"},
			},
		},
		ProfileStats: ebpf.ProfileStats{
			Outcomes: map[string]uint64{"complete": 110, "no_row": 111},
			JITBytes: 123, JITDropped: 124,
			KnownSymbols: map[string]uint64{"svc": 128}, UnknownSymbols: map[string]uint64{"svc": 129},
			UnknownModules: map[string]uint64{"svc": 130},
			Binaries:       []ebpf.BinaryStats{{File: "/bin/x", BuildID: "ab", Outcome: "no_row", Samples: 133}},
			Unnamed: []ebpf.UnnamedStats{{
				File: "/bin/y", BuildID: "cd", Reason: "no_symbols", Frames: 134, Explain: func() string { return "why" },
			}},
		},
		FilesLate: 125, FilesHanging: 126, FilesRefused: 127,
		Errors: map[string]uint64{"open /x: no such file": 131}, LimitHits: map[string]uint64{"elf": 132},
	}
	for i, row := range ebpf.Counters() {
		switch n := uint64(200 + i); {
		case row.One != nil && *row.One(s) == 0:
			*row.One(s) = n
		case row.Many != nil && *row.Many(s) == nil:
			*row.Many(s) = map[string]uint64{"any": n}
		}
	}
	return s
}

// Dashboards and people read metrics and debug info: the golden file has their names and
// values, without help texts.
func TestCountersShown(t *testing.T) {
	args := fastArgs(&fakeReceiver{err: errors.New("no such tenant")})
	args.Settings.CollectInterval = time.Hour // the last round is the only one
	l := newLab(t, args)
	stop := l.run(t)
	s := l.session(t, 0)
	s.mu.Lock()
	s.stats = sessionStats()
	s.mu.Unlock()
	require.NoError(t, stop())

	families, err := l.registry.Gather()
	require.NoError(t, err)
	var shown strings.Builder
	for _, family := range families {
		if strings.HasPrefix(family.GetName(), "pyroscope_fanout_") {
			continue // of package pyroscope, and not of this one
		}
		require.NotEmpty(t, family.GetHelp(), family.GetName())
		family.Help = nil
		_, err := expfmt.MetricFamilyToText(&shown, family)
		require.NoError(t, err)
	}
	raw, err := riverjson.MarshalBody(l.DebugInfo())
	require.NoError(t, err)
	var attributes []riverAttribute
	require.NoError(t, json.Unmarshal(raw, &attributes))
	writeAttributes(&shown, "", attributes)

	// The size depends on the compressor.
	text := regexp.MustCompile(`(pprof_bytes_total.*) \d+`).ReplaceAllString(shown.String(), "$1 SIZE")
	text = regexp.MustCompile(`\d{4}-\d\d-\d\dT[^"]*`).ReplaceAllString(text, "TIME")
	compareGolden(t, "counters.txt", text)
}

// riverAttribute is an attribute or a block of River in JSON.
type riverAttribute struct {
	Name  string
	Value json.RawMessage
	Body  []riverAttribute
}

// writeAttributes writes a line for each attribute: the names of the blocks around it, its name, and its value as
// riverjson writes it.
func writeAttributes(to *strings.Builder, prefix string, attributes []riverAttribute) {
	for _, a := range attributes {
		if a.Body != nil {
			writeAttributes(to, prefix+a.Name+".", a.Body)
			continue
		}
		fmt.Fprintf(to, "%s%s = %s\n", prefix, a.Name, plain(a.Value))
	}
}

// plain returns a value of riverjson without the types around it.
func plain(value json.RawMessage) string {
	var typed struct {
		Type  string
		Value json.RawMessage
	}
	if json.Unmarshal(value, &typed) != nil || typed.Type == "" {
		return string(value)
	}
	switch typed.Type {
	case "array":
		var elements []json.RawMessage
		_ = json.Unmarshal(typed.Value, &elements) // an array
		var texts []string
		for _, element := range elements {
			texts = append(texts, plain(element))
		}
		return "[" + strings.Join(texts, ", ") + "]"
	case "object":
		var fields []struct {
			Key   string
			Value json.RawMessage
		}
		_ = json.Unmarshal(typed.Value, &fields) // a list of keys and values
		var texts []string
		for _, field := range fields {
			texts = append(texts, field.Key+" = "+plain(field.Value))
		}
		return "{" + strings.Join(texts, ", ") + "}"
	}
	return string(typed.Value)
}

// The table and the debug info know the same attributes.
func TestDebugAttributes(t *testing.T) {
	named := map[string]bool{
		"started": true, "sample_rate": true, "sample_rate_current": true, "overhead": true, // no counters
		"memory_bytes": true,
	}
	for _, row := range counters() {
		named[row.Debug] = true
	}
	delete(named, "")
	fields := map[string]bool{}
	session := reflect.TypeFor[DebugSession]()
	for i := range session.NumField() {
		name, _, _ := strings.Cut(session.Field(i).Tag.Get("river"), ",")
		fields[name] = true
	}
	require.Equal(t, named, fields)
}

func compareGolden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(got), 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", path, diff)
	}
}
