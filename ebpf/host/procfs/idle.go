package procfs

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// userHZ is the unit of times in /proc/stat, sysconf(_SC_CLK_TCK): 100 a second
// on every architecture that Linux still runs on.
const userHZ = 100

// CPUTime is how long a CPU was idle since boot, including waits for I/O, and how long it was busy, in steps of 10 ms.
type CPUTime struct{ Idle, Busy time.Duration }

// CPUTimes returns the times of each CPU that is online; see proc_stat(5).
func (f FS) CPUTimes() (map[int]CPUTime, error) {
	path := f.rootOrDefault() + "/stat"
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	times := map[int]CPUTime{}
	for line := range strings.Lines(string(b)) {
		fields := strings.Fields(line)
		if len(fields) < 9 || !strings.HasPrefix(fields[0], "cpu") || fields[0] == "cpu" {
			continue
		}
		cpu, err := strconv.Atoi(fields[0][len("cpu"):])
		if err != nil {
			return nil, fmt.Errorf("%s: CPU %q: %w", path, fields[0], err)
		}
		var t CPUTime
		for i, field := range fields[1:9] { // user, nice, system, idle, iowait, irq, softirq, steal
			ticks, err := strconv.ParseUint(field, 10, 64)
			if err != nil {
				return nil, fmt.Errorf("%s: times of CPU %d: %w", path, cpu, err)
			}
			kind := &t.Busy
			if i == 3 || i == 4 {
				kind = &t.Idle
			}
			*kind += time.Duration(ticks) * time.Second / userHZ
		}
		times[cpu] = t
	}
	return times, nil
}
