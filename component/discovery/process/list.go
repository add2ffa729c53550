package process

import (
	"os/user"
	"strconv"
	"strings"
	"time"

	"github.com/go-kit/log"
	"github.com/go-kit/log/level"

	"github.com/headwater/headwater/component/discovery"
	"github.com/headwater/headwater/ebpf/host/procfs"
	"github.com/headwater/headwater/ebpf/process/target"
)

// Labels of a process. Labels with an empty value are left out.
const (
	labelExe         = "__meta_process_exe"
	labelCwd         = "__meta_process_cwd"
	labelCommandline = "__meta_process_commandline"
	labelUsername    = "__meta_process_username"
	labelUID         = "__meta_process_uid"
	labelCgroupPath  = "__meta_process_cgroup_path"

	labelOuterContainers = "__meta_process_outer_container_ids"
)

// lister makes targets of processes.
type lister struct {
	fs      procfs.FS
	cgroups *procfs.Cgroups
	logger  log.Logger
	users   map[uint32]string
	refused map[string]bool // kinds of files whose reading was refused and logged once
}

func newLister(fs procfs.FS, logger log.Logger) *lister {
	if logger == nil {
		logger = log.NewNopLogger()
	}
	return &lister{fs: fs, cgroups: fs.Cgroups(), logger: logger, users: map[uint32]string{}, refused: map[string]bool{}}
}

func (l *lister) close() { _ = l.cgroups.Close() }

// listTargets returns a target for each process for which all wanted labels can be read. Kernel threads, which have no
// executable, are left out while exe is wanted. refresh is the time between two lists.
func (l *lister) listTargets(wanted Discover, refresh time.Duration) ([]discovery.Target, error) {
	pids, err := l.fs.PIDs()
	if err != nil {
		return nil, err
	}
	clear(l.users)
	targets := make([]discovery.Target, 0, len(pids))
	for _, pid := range pids {
		t, err := l.describe(pid, wanted, refresh)
		switch {
		case err == nil:
			targets = append(targets, t)
		case !procfs.Gone(err):
			l.logRefused(pid, err)
		}
	}
	return targets, nil
}

// logRefused logs a file that cannot be read, once for each kind of file: otherwise it would log one line per process
// and interval.
func (l *lister) logRefused(pid uint32, err error) {
	kind := "process"
	if i := strings.LastIndexByte(err.Error(), '/'); i >= 0 {
		kind = err.Error()[i:]
	}
	if l.refused[kind] {
		return
	}
	l.refused[kind] = true
	level.Error(l.logger).Log("msg", "processes are left out: their labels of discover_config cannot be read",
		"first", pid, "err", err)
}

func (l *lister) describe(pid uint32, wanted Discover, refresh time.Duration) (discovery.Target, error) {
	instance, err := l.fs.Instance(pid)
	if err != nil {
		return nil, err
	}
	t := discovery.Target{
		target.LabelProcessPID:      strconv.FormatUint(uint64(pid), 10),
		target.LabelProcessInstance: target.InstanceOf(instance, refresh),
	}
	for _, part := range []struct {
		wanted bool
		label  string
		read   func(uint32) (string, error)
	}{
		{wanted.Exe, labelExe, l.fs.ExePath},
		{wanted.Cwd, labelCwd, l.fs.Cwd},
		{wanted.Commandline, labelCommandline, l.fs.Cmdline},
		{wanted.Username, labelUsername, l.username},
		{wanted.UID, labelUID, l.uidOf},
		{wanted.ContainerID, target.LabelContainerID, l.containerID},
		{wanted.ContainerID, labelOuterContainers, l.outerContainers},
		{wanted.CgroupPath, labelCgroupPath, l.cgroupPath},
	} {
		if !part.wanted {
			continue
		}
		value, err := part.read(pid)
		if err != nil {
			return nil, err
		}
		if value != "" {
			t[part.label] = strings.ToValidUTF8(value, "\uFFFD")
		}
	}
	return t, nil
}

func (l *lister) uidOf(pid uint32) (string, error) {
	id, err := l.fs.UID(pid)
	return strconv.FormatUint(uint64(id), 10), err
}

// username returns the user's name as this host knows it, or the user ID of an unknown user, such as most users in
// containers.
func (l *lister) username(pid uint32) (string, error) {
	id, err := l.fs.UID(pid)
	if err != nil {
		return "", err
	}
	if name, known := l.users[id]; known {
		return name, nil
	}
	name := strconv.FormatUint(uint64(id), 10)
	if u, err := user.LookupId(name); err == nil {
		name = u.Username
	}
	l.users[id] = name
	return name, nil
}

func (l *lister) containerID(pid uint32) (string, error) {
	lines, err := l.cgroups.Cgroup(pid)
	return target.ContainerIDFromCgroup(lines), err
}

// outerContainers returns the containers that enclose the container of a process, innermost first, separated by commas.
func (l *lister) outerContainers(pid uint32) (string, error) {
	lines, err := l.cgroups.Cgroup(pid)
	ids := target.ContainerIDsFromCgroup(lines)
	return strings.Join(ids[min(1, len(ids)):], ","), err
}

// cgroupPath returns the paths of all hierarchies in the order of the kernel, joined with "|". With cgroup v2 there is
// one path.
func (l *lister) cgroupPath(pid uint32) (string, error) {
	lines, err := l.cgroups.Cgroup(pid)
	if err != nil {
		return "", err
	}
	var paths []string
	for _, line := range lines {
		if parts := strings.SplitN(line, ":", 3); len(parts) == 3 {
			paths = append(paths, parts[2])
		}
	}
	return strings.Join(paths, "|"), nil
}
