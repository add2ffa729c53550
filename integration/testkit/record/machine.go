package record

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Machine describes the machine of a measurement.
type Machine struct {
	CPU          string `json:"cpu"` // the model's name
	CPUs         int    `json:"cpus"`
	Architecture string `json:"architecture"`
	MemoryMB     uint64 `json:"memory_mb"`
	Kernel       string `json:"kernel"`
}

func thisMachine() (Machine, error) {
	m := Machine{CPUs: runtime.NumCPU(), Architecture: runtime.GOARCH}
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return m, fmt.Errorf("uname: %w", err)
	}
	m.Kernel = unix.ByteSliceToString(name.Release[:])
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err != nil {
		return m, fmt.Errorf("sysinfo: %w", err)
	}
	m.MemoryMB = uint64(info.Totalram) * uint64(info.Unit) / 1e6
	text, err := os.ReadFile("/proc/cpuinfo")
	m.CPU = parseModel(string(text))
	return m, err
}

// parseModel returns the name of the CPU model in /proc/cpuinfo, with family and model, which distinguish CPUs that
// virtual machines report under the same name. On arm64 there are only the numbers of implementer and part.
func parseModel(cpuinfo string) string {
	fields := map[string]string{}
	lines := bufio.NewScanner(strings.NewReader(cpuinfo))
	for lines.Scan() && lines.Text() != "" { // the first CPU
		key, value, _ := strings.Cut(lines.Text(), ":")
		fields[strings.TrimSpace(key)] = strings.TrimSpace(value)
	}
	switch {
	case fields["model name"] != "":
		return fmt.Sprintf("%s, family %s, model %s", fields["model name"], fields["cpu family"], fields["model"])
	case fields["CPU part"] != "":
		return fmt.Sprintf("implementer %s, part %s", fields["CPU implementer"], fields["CPU part"])
	}
	return "unknown"
}

// treeState returns the commit of the working directory, and whether files differ from it. Records themselves do not
// count, because several are written one after another.
func treeState() (commit string, dirty bool, err error) {
	out, err := exec.Command("git", "rev-parse", "--short=12", "HEAD").Output()
	if err != nil {
		return "", false, fmt.Errorf("the commit of this tree: git rev-parse: %w", err)
	}
	commit = strings.TrimSpace(string(out))
	measured := []string{":/", ":(top,exclude)docs", ":(top,exclude)integration/lab/results", ":(top,exclude)README.md"}
	out, err = exec.Command("git", append([]string{"status", "--porcelain", "--"}, measured...)...).Output()
	if err != nil {
		return "", false, fmt.Errorf("changes of this tree: git status: %w", err)
	}
	return commit, len(out) > 0, nil
}

// Load describes how busy a machine is.
type Load struct {
	Average [3]float64 `json:"load_average"` // over 1, 5 and 15 minutes
	CPU     float64    `json:"cpu_percent"`  // share of all CPUs' time in use, without this process
}

const (
	lookTime = 2 * time.Second // time to observe other processes
	busyFrom = 10              // percent
)

func (l Load) isBusy() bool { return l.CPU > busyFrom }

// readLoad observes the machine for lookTime, during which the caller must be idle.
func readLoad() (l Load, err error) {
	before, err := readTicks()
	if err != nil {
		return l, err
	}
	time.Sleep(lookTime)
	after, err := readTicks()
	if err != nil {
		return l, err
	}
	l.CPU = before.usedUntil(after)
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return l, err
	}
	words := strings.Fields(string(text))
	for i := range min(len(l.Average), len(words)) {
		if l.Average[i], err = strconv.ParseFloat(words[i], 64); err != nil {
			return l, fmt.Errorf("/proc/loadavg: %w", err)
		}
	}
	return l, nil
}

// ticks are the CPUs' times so far, by use.
type ticks struct{ idle, steal, total uint64 }

func readTicks() (ticks, error) {
	stat, err := os.ReadFile("/proc/stat")
	if err != nil {
		return ticks{}, err
	}
	return parseTicks(string(stat))
}

// parseTicks parses the first line of /proc/stat, see proc(5): user, nice, system, idle, iowait, irq, softirq, steal.
// The columns after these are already included in them.
func parseTicks(stat string) (t ticks, err error) {
	line, _, _ := strings.Cut(stat, "\n")
	words := strings.Fields(line)
	const columns = 8
	if len(words) < 1+columns || words[0] != "cpu" {
		return t, fmt.Errorf("/proc/stat begins with %q", line)
	}
	for i, word := range words[1 : 1+columns] {
		n, err := strconv.ParseUint(word, 10, 64)
		if err != nil {
			return t, fmt.Errorf("/proc/stat: %w", err)
		}
		t.total += n
		switch i {
		case 3, 4:
			t.idle += n
		case 7:
			t.steal += n
		}
	}
	return t, nil
}

// usedUntil returns the share of the time in which CPUs were not idle, in percent.
func (t ticks) usedUntil(later ticks) float64 {
	return percent(later.total-t.total-(later.idle-t.idle), later.total-t.total)
}

// stealUntil returns the share that the hypervisor gave to other machines, in percent.
func (t ticks) stealUntil(later ticks) float64 {
	return percent(later.steal-t.steal, later.total-t.total)
}

func percent(part, whole uint64) float64 {
	if whole == 0 {
		return 0
	}
	return 100 * float64(part) / float64(whole)
}
