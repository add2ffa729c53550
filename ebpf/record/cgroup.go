package record

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// locate replaces a Cgroup given as a directory below any mount of control groups by its path in /proc/PID/cgroup, and
// sets the hierarchy. Any other path is left unchanged, and means every hierarchy.
func (s *Selection) locate(mountinfo string) {
	dir := path.Clean(s.Cgroup)
	if resolved, err := filepath.EvalSymlinks(dir); err == nil {
		dir = resolved // such as /sys/fs/cgroup/cpu, which may be a link to cpu,cpuacct
	}
	longest := 0
	for line := range strings.Lines(mountinfo) {
		m, ok := parseCgroupMount(line)
		rest, below := strings.CutPrefix(dir, m.point)
		if !ok || !below || rest != "" && rest[0] != '/' || len(m.point) < longest {
			continue
		}
		longest = len(m.point) // the last mount on a directory hides earlier mounts
		s.Cgroup, s.hierarchy = path.Join(m.root, rest), m.controllers
	}
}

// cgroupMount is a mount of control groups.
type cgroupMount struct {
	point       string
	root        string   // the control group at the mount point
	controllers []string // controllers and name of the hierarchy; one empty string for version 2
}

// parseCgroupMount parses a line of /proc/PID/mountinfo (proc_pid_mountinfo(5)). ok is false for other file systems.
func parseCgroupMount(line string) (m cgroupMount, ok bool) {
	mount, filesystem, _ := strings.Cut(line, " - ")
	where, what := strings.Fields(mount), strings.Fields(filesystem)
	if len(where) < 5 || len(what) < 3 {
		return m, false
	}
	m.root, m.point = unescape(where[3]), unescape(where[4])
	switch what[0] {
	case "cgroup":
		m.controllers = strings.Split(what[2], ",")
	case "cgroup2":
		m.controllers = []string{""}
	default:
		return m, false
	}
	return m, true
}

// unescape replaces the octal escapes of blanks in mountinfo.
func unescape(text string) string {
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] == '\\' && i+3 < len(text) {
			if c, err := strconv.ParseUint(text[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(c))
				i += 3
				continue
			}
		}
		b.WriteByte(text[i])
	}
	return b.String()
}

// readMounts returns the mounts of this process.
func readMounts() (string, error) {
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return "", fmt.Errorf("list mounts: %w", err)
	}
	return string(text), nil
}

// isCgroup reports whether a line of /proc/PID/cgroup is in the selected control group or below it.
func (s *Selection) isCgroup(line string) bool {
	_, rest, _ := strings.Cut(line, ":")
	controllers, at, found := strings.Cut(rest, ":")
	if !found || s.hierarchy != nil && !slices.ContainsFunc(strings.Split(controllers, ","), func(c string) bool {
		return slices.Contains(s.hierarchy, c)
	}) {
		return false
	}
	wanted := path.Clean("/" + s.Cgroup)
	return at == wanted || wanted == "/" || strings.HasPrefix(at, wanted+"/")
}
