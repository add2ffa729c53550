package tools

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headwater/headwater/integration/testkit"
	"github.com/headwater/headwater/integration/testkit/need"
	records "github.com/headwater/headwater/integration/testkit/record"
	"github.com/headwater/headwater/integration/testkit/rig"
)

// highRate is what a recording of the whole host at the highest rate took.
type highRate struct {
	Asked    float64           `json:"asked_seconds"`
	Took     float64           `json:"took_seconds"` // from start to exit
	Samples  uint64            `json:"samples"`
	Whole    float64           `json:"whole"` // share of the samples that have a user part
	Lost     map[string]uint64 `json:"lost"`
	Resident []float64         `json:"resident_mb"` // each second
	Peak     float64           `json:"peak_mb"`
	CPU      float64           `json:"cpu_seconds"`
	Bytes    int64             `json:"bytes"` // of the file
	Frames   int               `json:"frames"`
}

// Memory of a recording: a fixed part, and a part for each frame of a distinct stack. A frame takes 8 bytes; with its
// share of its sample and of the places, and with garbage, measurements reached two thirds of the limit.
const (
	recorderMB       = 300
	recorderPerFrame = 40 // bytes
)

// TestHighRate: a recording of the whole host at the highest rate ends, reports lost samples, and keeps its limits:
// memory grows only with the frames of distinct stacks, and the wait for names lasts at most half a minute.
// HEADWATER_RATE_SECONDS is its duration; if it is more than 8 s, a compiler runs too.
func TestHighRate(t *testing.T) {
	testkit.Nightly(t, "it records at the highest rate, and other tests at high ones")
	t.Parallel()
	need.Root(t)
	seconds := 8
	if n, err := strconv.Atoi(os.Getenv("HEADWATER_RATE_SECONDS")); err == nil {
		seconds = n
	}
	save := records.Test(t, "rate", fmt.Sprintf("make -C integration bench-rate RATE_SECONDS=%d RECORD=1", seconds))
	rig.StartCopy(t)
	if seconds > 8 {
		startCompiler(t)
	}
	found := recordAtHighRate(t, seconds)
	t.Logf("%.1f s, %.0f MB at most, %d samples, %d frames, lost %v, %.1f s of CPU, %d bytes; each second %.0f",
		found.Took, found.Peak, found.Samples, found.Frames, found.Lost, found.CPU, found.Bytes, found.Resident)
	require.Positive(t, found.Samples)
	require.Positive(t, found.Bytes)
	require.Less(t, found.Took, found.Asked+120, "half a minute for names, on a slow machine")
	allowed := recorderMB + float64(found.Frames)*recorderPerFrame/1e6
	require.Less(t, found.Peak, allowed, "MB, for %d frames", found.Frames)
	save(found)
}

// startCompiler compiles continuously, which gives many distinct stacks and short processes.
func startCompiler(t *testing.T) {
	t.Helper()
	need.Tools(t, "g++")
	source, err := filepath.Abs("testdata/work.cpp")
	require.NoError(t, err)
	rig.Start(t, exec.Command("sh", "-c", "while :; do g++ -O2 -c -o /dev/null "+source+"; done"))
}

func recordAtHighRate(t *testing.T, seconds int) (found highRate) {
	t.Helper()
	cmd := exec.Command(rig.Binary(t), "record", "-F", "10000", "-a", "-d", strconv.Itoa(seconds), "--json")
	cmd.Dir = t.TempDir()
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	begun := time.Now()
	require.NoError(t, cmd.Start())
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	found.Asked = float64(seconds)
	var err error
	found.Resident, err = watchResident(t, cmd.Process.Pid, ended)
	require.NoError(t, err, errs.String())
	found.Took = time.Since(begun).Seconds()
	usage, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage)
	require.True(t, ok)
	found.Peak = float64(usage.Maxrss) * 1024 / 1e6
	found.CPU = (cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds()
	var summary struct {
		Samples, Whole uint64
		WithUser       uint64            `json:"with_user"`
		Lost           map[string]uint64 `json:"lost"`
	}
	require.NoError(t, json.Unmarshal(out.Bytes(), &summary))
	require.NotEmpty(t, summary.Lost, "reasons for which samples are lost, with their counts")
	found.Samples, found.Lost = summary.Samples, summary.Lost
	found.Whole = float64(summary.Whole) / float64(max(summary.WithUser, 1))
	info, err := os.Stat(filepath.Join(cmd.Dir, "headwater.pb.gz"))
	require.NoError(t, err)
	found.Bytes = info.Size()
	for _, sample := range readProfile(t, cmd.Dir, "headwater.pb.gz").Sample {
		found.Frames += len(sample.Location)
	}
	return found
}

// watchResident returns how much of a process is in memory, each second, in MB, until it has ended.
func watchResident(t *testing.T, pid int, ended chan error) (all []float64, err error) {
	t.Helper()
	for {
		select {
		case err := <-ended:
			return all, err
		case <-time.After(time.Second):
		}
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		if err != nil {
			continue // it has ended just now
		}
		for line := range strings.Lines(string(status)) {
			if kib, ok := strings.CutPrefix(line, "VmRSS:"); ok {
				n, err := strconv.ParseFloat(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(kib), "kB")), 64)
				require.NoError(t, err)
				all = append(all, n*1024/1e6)
			}
		}
	}
}
