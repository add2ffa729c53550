package ebpf

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
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

var update = flag.Bool("update", false, "write the golden files again")

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

// Metrics and debug info are what dashboards and people read: names, help texts and values
// are those of the golden files.
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
	var metrics strings.Builder
	for _, family := range families {
		if strings.HasPrefix(family.GetName(), "pyroscope_fanout_") {
			continue // of package pyroscope, and not of this one
		}
		_, err := expfmt.MetricFamilyToText(&metrics, family)
		require.NoError(t, err)
	}
	// The size depends on the compressor.
	size := regexp.MustCompile(`(pprof_bytes_total.*) \d+`)
	compareGolden(t, "metrics.txt", size.ReplaceAllString(metrics.String(), "$1 SIZE"))

	raw, err := riverjson.MarshalBody(l.DebugInfo())
	require.NoError(t, err)
	var info bytes.Buffer
	require.NoError(t, json.Indent(&info, raw, "", "  "))
	started := regexp.MustCompile(`\d{4}-\d\d-\d\dT[^"]*`)
	compareGolden(t, "debuginfo.json", started.ReplaceAllString(info.String(), "TIME")+"\n")
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
