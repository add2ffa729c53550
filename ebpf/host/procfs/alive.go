package procfs

import (
	"fmt"
	"os"
	"strings"
)

// Process returns the process of a thread. For the PID of a process, it is the process itself.
func (f FS) Process(tid uint32) (uint32, error) {
	path := f.pathOf(tid, "/status")
	b, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(b)) {
		if text, ok := strings.CutPrefix(line, "Tgid:"); ok {
			return number(strings.TrimSpace(text))
		}
	}
	return 0, fmt.Errorf("%s: no Tgid", path)
}

// Lives reports whether a process exists and has not ended. A process that has ended, but whose parent has not waited
// for it, does not live.
func (f FS) Lives(pid uint32) bool {
	fields, err := f.statFields(pid)
	if err != nil || len(fields) == 0 || fields[0] == "X" {
		return false
	}
	if fields[0] != "Z" {
		return true
	}
	// The first thread may have ended before other threads, which then still run.
	threads, err := f.Threads(pid)
	return err == nil && len(threads) > 1
}
