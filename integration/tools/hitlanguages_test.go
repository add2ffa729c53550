package tools

import (
	"fmt"
	"math"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/pprof/profile"
	"github.com/stretchr/testify/require"

	"github.com/headwater/headwater/ebpf/host/procfs"
	"github.com/headwater/headwater/integration/testkit"
	"github.com/headwater/headwater/integration/testkit/need"
	"github.com/headwater/headwater/integration/testkit/rig"
)

// Bytes that two functions of testdata/hits.* write at a time, and allocate.
const muchOfHits, littleOfHits = 100000, 30000

// TestHitsOfLanguages: what programs of Python, JavaScript and Java write and allocate is of the functions that do. Two
// functions take turns in several threads, so that the functions of another hit would show.
func TestHitsOfLanguages(t *testing.T) {
	t.Parallel()
	need.Root(t)
	need.Tools(t, "python3", "node", "java", "javac")
	const threads = "3"
	for _, program := range []struct {
		language string
		command  []string
		writes   string // function of the language by which the two write
	}{
		{"Python", []string{"/usr/bin/python3", "testdata/hits.py", threads}, ""},
		{"JavaScript", []string{"node", "testdata/hits.js", threads}, "writeSync"}, // node writes elsewhere too
		{"Java", []string{"java", "-cp", compiledJava(t, "testdata/Hits.java"), "Hits", threads}, ""},
	} {
		t.Run(program.language, func(t *testing.T) {
			t.Parallel()
			pid := rig.Start(t, exec.Command(program.command[0], program.command[1:]...)).PID()
			testkit.Eventually(t, "the program writes", func() bool { return writtenBy(t, pid) > 100*muchOfHits })
			checkWrites(t, recordWrites(t, pid), program.writes)
			checkBlocks(t, recordBlocks(t, pid))
		})
	}
}

// writtenBy returns how many bytes a process has written.
func writtenBy(t testing.TB, pid int) (bytes int) {
	t.Helper()
	for line := range strings.Lines(rig.ReadFile(t, fmt.Sprintf("/proc/%d/io", pid))) {
		if n, _ := fmt.Sscanf(line, "wchar: %d", &bytes); n == 1 {
			return bytes
		}
	}
	t.Fatalf("/proc/%d/io has no wchar", pid)
	return 0
}

// libcOf returns the C library of a process.
func libcOf(t *testing.T, pid int) string {
	t.Helper()
	maps, err := procfs.Default.ExecMappings(uint32(pid))
	require.NoError(t, err)
	at := slices.IndexFunc(maps, func(m procfs.Mapping) bool { return strings.HasSuffix(m.Path, "/libc.so.6") })
	require.GreaterOrEqual(t, at, 0, "no libc.so.6 is mapped")
	return maps[at].Path
}

// recordWrites records what a process writes until it has written 500 times by each of the functions.
func recordWrites(t *testing.T, pid int) *profile.Profile {
	t.Helper()
	probe := "uprobe:" + libcOf(t, pid) + ":write value=arg3 unit=bytes"
	folder, _ := recordSamples(t, 1000, "-e", probe, "-p", fmt.Sprint(pid))
	return readProfile(t, folder, "headwater.pb.gz")
}

// recordBlocks records the allocations of a process for two seconds. The recorder runs before all other processes: on a
// busy machine it would need the two seconds to read the program's language.
func recordBlocks(t testing.TB, pid int) *profile.Profile {
	t.Helper()
	cmd := exec.Command(rig.Binary(t), "record", "-e", "heap", "-c", "4096", "--heap-limit", "0", "-p", fmt.Sprint(pid),
		"-d", "2")
	cmd.Dir = t.TempDir()
	recorder := rig.Start(t, cmd)
	recorder.Prioritize(t)
	require.Equal(t, 0, recorder.Wait(t, 2*time.Minute), recorder.Output)
	return readProfile(t, cmd.Dir, "headwater.pb.gz")
}

// checkWrites requires that nearly all bytes belong to complete chains of functions, and that each chain has only whole
// writes. On a busy machine headwater reads the program's language some time after the start of the recording: until
// then stacks lack its functions. Some stacks must have them.
func checkWrites(t testing.TB, p *profile.Profile, writes string) {
	much, little, others, all := bytesOfHits(p, writes)
	t.Logf("%.0f bytes of writesMuch, %.0f of writesLittle, %.0f without the functions, %.0f in all",
		much, little, others, all)
	if lost := bytesWithoutRow(p); lost > all/20 { // that does not come from a late start
		t.Errorf("%.0f of %.0f bytes have stacks that end with no_row", lost, all)
	}
	all -= others
	if math.Mod(much, muchOfHits) != 0 || math.Mod(little, littleOfHits) != 0 {
		t.Errorf("%.0f bytes of writesMuch, %.0f of writesLittle: some are of the other", much, little)
	}
	if much+little < 0.97*all || much == 0 || little == 0 {
		t.Errorf("%.0f of %.0f bytes are of the functions that write them", much+little, all)
	}
}

// checkBlocks demands that bytes in use are of the functions by the sizes of their blocks, to which the runtimes add
// something.
func checkBlocks(t testing.TB, p *profile.Profile) {
	much, little, others, all := bytesOfHits(p, "")
	t.Logf("%.0f bytes of writesMuch, %.0f of writesLittle, %.0f without the functions, %.0f in all",
		much, little, others, all)
	all -= others
	// Each of three threads may be between the two functions when the recording begins, and when it ends.
	more, less := much/muchOfHits, little/littleOfHits
	if math.Abs(more-less) > 6+0.02*less || more < 20 {
		t.Errorf("%.1f blocks are of writesMuch, %.1f of writesLittle", more, less)
	}
	if much+little < 0.9*all { // the runtime also has blocks
		t.Errorf("%.0f of %.0f bytes are of the functions that allocate them", much+little, all)
	}
}

// bytesOfHits adds up the bytes of stacks in which outer calls middle, which calls one of the two functions, which
// calls the function calls unless that is "". others is the sum of stacks without the two functions, and of stacks with
// methods of Java that have no names yet.
func bytesOfHits(p *profile.Profile, calls string) (much, little, others, all float64) {
	for _, s := range p.Sample {
		bytes := float64(s.Value[len(s.Value)-1])
		chain := functionsOf(s)
		if strings.Contains(chain, " uv_async_send ") {
			continue // node writes 8 bytes to wake a thread, in any function of JavaScript
		}
		all += bytes
		switch {
		case strings.Contains(chain, " outer middle writesMuch "+calls):
			much += bytes
		case strings.Contains(chain, " outer middle writesLittle "+calls):
			little += bytes
		case !strings.Contains(chain, " writesMuch ") && !strings.Contains(chain, " writesLittle "):
			others += bytes
		case strings.Contains(chain, " Interpreter "): // a method of Java that has no name yet
			others += bytes
		}
	}
	return much, little, others, all
}

// functionsOf returns the functions of a stack, the caller first, without their classes, each with a blank before and
// after it.
func functionsOf(s *profile.Sample) string {
	names := " "
	for _, l := range slices.Backward(s.Location) {
		for _, line := range slices.Backward(l.Line) {
			names += line.Function.Name[strings.LastIndexByte(line.Function.Name, '.')+1:] + " "
		}
	}
	return names
}

// bytesWithoutRow adds up the bytes of stacks that end where no rule leads on.
func bytesWithoutRow(p *profile.Profile) (bytes float64) {
	for _, s := range p.Sample {
		outermost := s.Location[max(0, len(s.Location)-2):] // the last one may be the name of the process
		if slices.ContainsFunc(outermost, func(l *profile.Location) bool {
			return strings.HasPrefix(l.Line[0].Function.Name, "[incomplete: no_row ")
		}) {
			bytes += float64(s.Value[len(s.Value)-1])
		}
	}
	return bytes
}
