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

// IdleTimes returns for how long each CPU has been idle since boot, waiting for
// I/O included, in steps of 10 ms; see proc_stat(5).
func (f FS) IdleTimes() (map[int]time.Duration, error) {
	path := f.root() + "/stat"
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	idle := map[int]time.Duration{}
	for line := range strings.Lines(string(b)) {
		fields := strings.Fields(line)
		if len(fields) < 6 || !strings.HasPrefix(fields[0], "cpu") || fields[0] == "cpu" {
			continue
		}
		cpu, err := strconv.Atoi(fields[0][len("cpu"):])
		if err != nil {
			return nil, fmt.Errorf("%s: CPU %q: %w", path, fields[0], err)
		}
		for _, field := range fields[4:6] { // idle, iowait
			ticks, err := strconv.ParseUint(field, 10, 64)
			if err != nil {
				return nil, fmt.Errorf("%s: idle time of CPU %d: %w", path, cpu, err)
			}
			idle[cpu] += time.Duration(ticks) * time.Second / userHZ
		}
	}
	return idle, nil
}
