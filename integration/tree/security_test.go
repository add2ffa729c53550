package tree

import (
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/headwater/headwater/component/discovery"
	"github.com/headwater/headwater/component/local/file"
	"github.com/headwater/headwater/component/pyroscope/receivehttp"
	"github.com/headwater/headwater/component/pyroscope/write"
	"github.com/headwater/headwater/ebpf/host/filework"
	"github.com/headwater/headwater/ebpf/host/procfs"
	"github.com/headwater/headwater/ebpf/language"
	"github.com/headwater/headwater/ebpf/language/chain"
	"github.com/headwater/headwater/ebpf/language/engine"
	"github.com/headwater/headwater/ebpf/language/jvm"
	"github.com/headwater/headwater/ebpf/object/debugfile"
	"github.com/headwater/headwater/ebpf/object/dwarfline"
	"github.com/headwater/headwater/ebpf/object/elffile"
	processes "github.com/headwater/headwater/ebpf/process"
	"github.com/headwater/headwater/ebpf/profile"
	names "github.com/headwater/headwater/ebpf/symbol"
	"github.com/headwater/headwater/ebpf/symbol/debuginfod"
	"github.com/headwater/headwater/ebpf/symbol/jit"
	"github.com/headwater/headwater/ebpf/unwind/ehframe"
	"github.com/headwater/headwater/ebpf/unwind/gopclntab"
	"github.com/headwater/headwater/river"
)

// bound is a row of the table in SECURITY.md, by a part of its first cell, and the amounts that
// it must name.
type bound struct {
	input   string
	amounts []string
}

// bounds returns the bounds in the code.
func bounds() []bound {
	return []bound{
		{"Files that may hang", []string{mib(elffile.MaxCopy), seconds(elffile.CopyTime), gib(elffile.MaxCopies)}},
		{"Section read as a whole", []string{mib(elffile.MaxSection)}},
		{"Section mapped for debug info", []string{gib(elffile.MaxMapped)}},
		{"Compressed section", []string{fmt.Sprintf("%d times", elffile.MaxRatio), mib(elffile.MaxInflated),
			seconds(elffile.UnpackTime)}},
		{"Compressed debug info on disk", []string{gib(elffile.DefaultFileSpill), gib(elffile.DefaultSpill)}},
		{"DWARF data", []string{thousands(dwarfline.MaxWork), thousands(dwarfline.MaxFileWork),
			thousands(dwarfline.FileWorkPerSecond)}},
		{"Debug file named by", []string{gib(debugfile.MaxLinked), seconds(debugfile.MaxLinkedTime)}},
		{"MiniDebugInfo", []string{mib(names.MaxMiniDebug), mib(names.MaxMiniDebugSize), seconds(names.MaxMiniDebugTime)}},
		{"Requests to `pyroscope.receive_http`", []string{mib(receivehttp.MaxRequest), mib(receivehttp.MaxInFlight),
			fmt.Sprintf("%.0f minutes", receivehttp.MaxBodyTime.Minutes()), kib(receivehttp.MaxHeader)}},
		{"`.eh_frame`, `.debug_frame`", []string{mib(ehframe.MaxEntry), kib(ehframe.MaxCIE), mib(ehframe.MaxScan),
			thousands(ehframe.MaxScanEntries), thousands(ehframe.MaxScanCIEs)}},
		{"Symbol table", []string{mib(elffile.MaxNameBytes)}},
		{"Opening a file", []string{seconds(filework.CPUAtOnce), fmt.Sprintf("1/%d", filework.CPUShare)}},
		{"`.gopclntab`", []string{gib(gopclntab.MaxScan), fmt.Sprintf("%d places", gopclntab.MaxCandidates),
			kib(gopclntab.MaxName), fmt.Sprintf("%d inlined calls", gopclntab.MaxInlined)}},
		{"Executable text", []string{thousands(processes.MaxPages) + " pages"}},
		{"Perf maps and jitdumps", []string{mib(jit.MaxRead), mib(jit.MaxReadRate) + "/s", kib(jit.MaxLine),
			mib(jit.DefaultBytes)}},
		{"HotSpot's structures", []string{thousands(jvm.MaxEntries) + " entries", gib(jvm.MaxCache), mib(jvm.MaxCode),
			mib(jvm.MaxRemembered)}},
		{"Memory of processes that is read", []string{millis(filework.QuickPatience),
			fmt.Sprintf("%d times", filework.QuickTurns), fmt.Sprintf("%d times", filework.LateShare),
			seconds(filework.LateAtOnce), fmt.Sprintf("1/%d", filework.LateShare)}},
		{"Frames and names of interpreters", []string{thousands(chain.MaxFrames) + " frames",
			fmt.Sprintf("%d bytes", language.MaxTexts*language.MaxTextBytes),
			fmt.Sprintf("%d functions", engine.MaxReads), mib(engine.MaxRemembered),
			thousands(engine.MaxReadsAtOnce) + " reads", thousands(engine.ReadsPerSecond),
			strconv.Itoa(engine.LeastReadsPerSecond), thousands(engine.MaxAllReadsAtOnce),
			thousands(engine.AllReadsPerSecond), fmt.Sprintf("%d times", engine.LateReadShare),
			millis(engine.ReadPatience), seconds(engine.ShortestRest),
			fmt.Sprintf("%.0f minutes", engine.LongestRest.Minutes()), thousands(profile.MaxPlaces) + " places"}},
		{"`/proc/PID/maps`", []string{mib(procfs.MaxPaths)}},
		{"`/proc/PID/cmdline`", []string{kib(procfs.MaxCmdline)}},
		{"Answers of Docker", []string{mib(discovery.MaxAnswer), gib(discovery.MaxWatch)}},
		{"Answers of Pyroscope", []string{mib(write.MaxResponse)}},
		{"Files of debuginfod", []string{gib(debuginfod.MaxFile), gib(debuginfod.DefaultCacheSize)}},
		{"File of `local.file`", []string{mib(file.MaxFile)}},
		{"Modules and imports", []string{fmt.Sprintf("%d levels", river.MaxDepth)}},
	}
}

// TestSecurityTable looks for the bounds of the code in the rows of SECURITY.md. How a row
// says them is for its author.
func TestSecurityTable(t *testing.T) {
	text, err := os.ReadFile("../../SECURITY.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range bounds() {
		for _, problem := range b.missingIn(string(text)) {
			t.Errorf("SECURITY.md: %s", problem)
		}
	}
}

// missingIn returns what a text with the table does not say.
func (b bound) missingIn(text string) (problems []string) {
	var rows []string
	for line := range strings.Lines(text) {
		cells := strings.Split(line, " | ")
		if strings.HasPrefix(line, "| ") && len(cells) > 2 && strings.Contains(cells[0], b.input) {
			rows = append(rows, cells[2])
		}
	}
	if len(rows) != 1 {
		return []string{fmt.Sprintf("%d rows for %s", len(rows), b.input)}
	}
	for _, amount := range b.amounts {
		if !regexp.MustCompile(`(^|[^0-9,.])` + regexp.QuoteMeta(amount) + `($|\W)`).MatchString(rows[0]) {
			problems = append(problems, fmt.Sprintf("%s: the bound %s is not in %q", b.input, amount, rows[0]))
		}
	}
	return problems
}

// TestMissingIn: a number counts, and not a part of it, and not one of another row.
func TestMissingIn(t *testing.T) {
	const table = "| Input | Who | Bound | Beyond |\n|---|---|---|---|\n" +
		"| A file | its user | up to 116 MiB and 1,024 names | 5 s |\n| Another | its user | 16 MiB | |\n"
	for _, test := range []struct {
		b    bound
		want int
	}{
		{bound{"A file", []string{"116 MiB", "1,024 names"}}, 0},
		{bound{"A file", []string{"16 MiB"}}, 1},
		{bound{"A file", []string{"024 names", "1,02", "5 s"}}, 3},
		{bound{"Another", []string{"16 MiB"}}, 0},
		{bound{"No file", nil}, 1},
	} {
		if problems := test.b.missingIn(table); len(problems) != test.want {
			t.Errorf("%v: %q", test.b, problems)
		}
	}
}

func kib[N int | int64 | uint64](n N) string { return fmt.Sprintf("%d KiB", n>>10) }

func mib[N int | int64 | uint64](n N) string { return fmt.Sprintf("%d MiB", n>>20) }

func gib[N int | int64 | uint64](n N) string { return fmt.Sprintf("%d GiB", n>>30) }

func seconds(d time.Duration) string { return fmt.Sprintf("%.0f s", d.Seconds()) }

func millis(d time.Duration) string { return fmt.Sprintf("%d ms", d.Milliseconds()) }

// thousands writes a number with commas.
func thousands(n int) string {
	if n < 1000 {
		return strconv.Itoa(n)
	}
	return fmt.Sprintf("%s,%03d", thousands(n/1000), n%1000)
}
