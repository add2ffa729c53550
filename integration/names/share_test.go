package names

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/headwater/headwater/integration/testkit"
	"github.com/headwater/headwater/integration/testkit/need"
	"github.com/headwater/headwater/integration/testkit/record"
	"github.com/headwater/headwater/integration/testkit/retry"
	"github.com/headwater/headwater/integration/testkit/rig"
)

// TestNamedShare profiles stripped programs of Debian with headwater, with and
// without the debug files in /usr/lib/debug, and with perf, all at once. It shows
// which share of their frames, weighted by samples, has a function's name, and
// demands that perf does not name more of all.
//
// make test leaves it out: on a busy machine perf takes minutes for its stacks.
func TestNamedShare(t *testing.T) {
	testkit.Nightly(t, "perf takes minutes for its stacks on a busy machine; TestNames judges the same names")
	if os.Getenv("HEADWATER_PERF") == "" {
		t.Skip("a comparison with perf; make -C integration named-share runs it")
	}
	save := record.Test(t, "named-share", "make -C integration named-share")
	var shares map[string]map[string]float64
	retry.Run(t, func(t *retry.T) { shares = tryNamedShare(t) })
	save(shares)
}

// strippedPrograms run until they are stopped.
func strippedPrograms(t testing.TB) map[string]*exec.Cmd {
	t.Helper()
	fill := filepath.Join(t.TempDir(), "fill")
	rig.WriteFile(t, fill, strings.Repeat("the river carries its water to the sea\n", 1<<18))
	loop := func(command string) *exec.Cmd { return exec.Command("sh", "-c", "while :; do "+command+"; done") }
	return map[string]*exec.Cmd{
		"xz":      loop("xz -T1 -6 -c " + fill + " >/dev/null"),
		"openssl": loop("openssl speed -seconds 1 sha256 rsa2048 >/dev/null 2>&1"),
		"perl":    loop(`perl -e 'for (1..2000000) { $h{$_ % 997} .= "x" if $_ % 7 }'`),
		"sort":    loop("sort " + fill + " | uniq -c >/dev/null"),
	}
}

// share counts samples' frames, and those that have a name.
type share struct{ frames, named float64 }

func (s share) String() string {
	if s.frames == 0 {
		return "-"
	}
	return fmt.Sprintf("%.1f %%", 100*s.named/s.frames)
}

// hideDebugFiles lets a command see an empty /usr/lib/debug.
func hideDebugFiles(t testing.TB, cmd *exec.Cmd) {
	args := append([]string{"-m", "sh", "-c", `mount --bind "$0" /usr/lib/debug && exec "$@"`, t.TempDir()}, cmd.Args...)
	hidden := exec.Command("unshare", args...)
	cmd.Path, cmd.Args = hidden.Path, hidden.Args
}

// tryNamedShare returns the named shares, by program and then by profiler.
func tryNamedShare(t *retry.T) map[string]map[string]float64 {
	need.Root(t)
	need.Tools(t, "perf", "unshare", "xz", "openssl", "perl", "sort")
	config := strings.Replace(strings.Replace(namesConfig, "targets          = [%s]", "targets_only     = false", 1),
		"397", "97", 1)
	without := rig.LaunchHeadwater(t, config, func(cmd *exec.Cmd) { hideDebugFiles(t, cmd) })
	with := rig.StartHeadwater(t, config)
	without.WaitReady(t)
	for _, cmd := range strippedPrograms(t) {
		rig.Start(t, cmd)
	}
	rig.Start(t, exec.Command("fio", "--name=load", "--ioengine=libaio", "--rw=randread", "--bs=4k", "--size=32m",
		"--iodepth=8",
		"--filename="+filepath.Join(t.TempDir(), "fio.data"), "--time_based", "--runtime=300"))

	recorded := filepath.Join(t.TempDir(), "perf.data")
	record := exec.Command("perf", "record", "-q", "-B", "-N", "-a", "-e", "cpu-clock:u", "-F", "97", "--call-graph",
		"dwarf", "-o", recorded, "sleep", "10")
	if out, err := record.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", record.Args, err, out)
	}
	time.Sleep(2 * time.Second) // for headwater's next round

	tables := []map[string]*share{ours(t, with), perfs(t, recorded, false), ours(t, without), perfs(t, recorded, true)}
	t.Logf("%-10s %21s %21s", "", "with debug files", "without")
	t.Logf("%-10s %10s %10s %10s %10s", "program", "headwater", "perf", "headwater", "perf")
	columns := []string{"headwater", "perf", "headwater_without", "perf_without"}
	shares := map[string]map[string]float64{}
	for _, comm := range []string{"fio", "xz", "openssl", "perl", "sort", "all"} {
		var row []any
		shares[comm] = map[string]float64{}
		for i, table := range tables {
			if table[comm] == nil {
				t.Fatalf("%s was not sampled by all", comm)
			}
			row = append(row, *table[comm])
			shares[comm][columns[i]] = table[comm].named / table[comm].frames
		}
		t.Logf("%-10s %10v %10v %10v %10v", append([]any{comm}, row...)...)
	}
	for i := 0; i < len(tables); i += 2 {
		mine, theirs := tables[i]["all"], tables[i+1]["all"]
		// Both sample at moments of their own: differences of up to 2 % do not count.
		if mine.named/mine.frames < theirs.named/theirs.frames-0.02 {
			t.Errorf("headwater names %v of the frames, perf %v", mine, theirs)
		}
	}
	return shares
}

func add(table map[string]*share, comm string, frames, named int, weight float64) {
	for _, name := range []string{comm, "all"} {
		if table[name] == nil {
			table[name] = &share{}
		}
		table[name].frames += float64(frames) * weight
		table[name].named += float64(named) * weight
	}
}

// sampled reports whether a process is compared.
func sampled(comm string) bool {
	return strings.Contains(" fio xz openssl perl sort ", " "+comm+" ")
}

var unnamedFrame = regexp.MustCompile(`\+0x[0-9a-f]+$|^\[unknown\]$`)

// ours counts the user frames of headwater's profiles.
func ours(t testing.TB, h *rig.Headwater) map[string]*share {
	t.Helper()
	table := map[string]*share{}
	for _, s := range rig.Stacks(h.Download(t)) {
		frames, named := 0, 0
		for _, f := range s.Frames[1:] {
			if f.File == "[kernel.kallsyms]" || strings.HasPrefix(f.Name, "[incomplete") {
				continue
			}
			if frames++; !unnamedFrame.MatchString(f.Name) {
				named++
			}
		}
		if comm := s.Frames[0].Name; sampled(comm) {
			add(table, comm, frames, named, float64(s.Value))
		}
	}
	return table
}

// perfs counts the frames that perf script prints.
func perfs(t testing.TB, recorded string, hidden bool) map[string]*share {
	t.Helper()
	cmd := exec.Command("perf", "script", "-i", recorded, "--no-inline", "-F", "comm,ip,sym,dso")
	if hidden {
		hideDebugFiles(t, cmd)
	}
	cmd.Env = append(os.Environ(), "DEBUGINFOD_URLS=", "HOME="+t.TempDir()) // perf's cache might have debug files
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %v\n%.500s", cmd.Args, err, stderr.String())
	}
	table := map[string]*share{}
	for sample := range strings.SplitSeq(string(out), "\n\n") {
		lines := strings.Split(strings.Trim(sample, "\n"), "\n")
		comm := strings.TrimSpace(lines[0])
		if !sampled(comm) {
			continue
		}
		named := 0
		for _, line := range lines[1:] {
			if fields := strings.Fields(line); len(fields) > 1 && fields[1] != "[unknown]" {
				named++
			}
		}
		add(table, comm, len(lines)-1, named, 1)
	}
	return table
}
