package record

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/headwater/headwater/ebpf/host/numa"
	"github.com/headwater/headwater/ebpf/host/procfs"
	"github.com/headwater/headwater/ebpf/kernel"
	"github.com/headwater/headwater/ebpf/process/target"
)

// Selection selects the samples of this host to record: samples that meet all fields that are set. The zero value
// selects all samples.
type Selection struct {
	PIDs      []uint32 // these processes, and all processes that they start from now on
	Children  bool     // with PIDs: also the processes that they have started before
	TIDs      []uint32 // these threads
	CPUs      []uint32 // samples on these CPUs
	Cgroup    string   // processes in or below this control group: the path in /proc/PID/cgroup, or a directory
	Unit      string   // processes of this systemd unit
	Container string   // processes of this container: its ID, or a prefix of it
	Command   bool     // the command of Start, and all processes that it starts

	hierarchy []string // controllers of the hierarchy of Cgroup; nil for any hierarchy
}

// everything reports whether all processes are selected.
func (s *Selection) everything() bool {
	return len(s.PIDs) == 0 && len(s.TIDs) == 0 && !s.Command && !s.byCgroup()
}

func (s *Selection) byCgroup() bool { return s.Cgroup != "" || s.Unit != "" || s.Container != "" }

// String describes the selection, such as "process 4711 (java)".
func (s *selection) String() string {
	var parts []string
	add := func(format string, args ...any) { parts = append(parts, fmt.Sprintf(format, args...)) }
	switch {
	case s.Command:
		add("%s", s.name)
	case len(s.TIDs) > 0:
		add("thread%s", numbers(s.TIDs))
	case len(s.PIDs) > 0:
		add("process%s", numbers(s.PIDs))
	}
	if s.name != "" && !s.Command {
		parts[0] += " (" + s.name + ")"
	}
	if s.Container != "" {
		add("container %s", s.Container)
	}
	if s.Unit != "" {
		add("unit %s", s.Unit)
	}
	if s.Cgroup != "" {
		add("control group %s", s.Cgroup)
	}
	if len(parts) == 0 {
		add("this host")
	}
	if len(s.CPUs) > 0 {
		add("CPU%s", numbers(s.CPUs))
	}
	return strings.Join(parts, ", ")
}

// numbers returns " 1, 2".
func numbers(ids []uint32) string {
	var texts []string
	for _, id := range ids {
		texts = append(texts, strconv.FormatUint(uint64(id), 10))
	}
	return " " + strings.Join(texts, ", ")
}

// NoProcessError is the error for a selected process or thread that does not exist.
type NoProcessError struct {
	ID     uint32
	Thread bool   // ID was selected as a thread
	Of     uint32 // if not 0, ID was selected as a process, but is a thread of this process
}

func (e *NoProcessError) Error() string {
	switch {
	case e.Of != 0:
		return fmt.Sprintf("%d is a thread of process %d, not a process", e.ID, e.Of)
	case e.Thread:
		return fmt.Sprintf("there is no thread %d", e.ID)
	default:
		return fmt.Sprintf("there is no process %d", e.ID)
	}
}

// cgroupReader reads the control groups of processes.
type cgroupReader interface {
	Cgroup(pid uint32) ([]string, error)
}

// selection decides which processes are recorded. Safe for concurrent use.
type selection struct {
	Selection
	fs      procfs.FS
	cgroups *procfs.Cgroups
	command *command

	mu     sync.Mutex
	roots  []uint32          // processes selected by ID; the recording ends when all have ended
	reused map[uint32]bool   // roots whose ID now belongs to another process
	family map[uint32]bool   // roots, and the descendants that they have started since
	since  map[uint32]uint64 // by PID, start of the command, CLOCK_MONOTONIC
	exe    string            // set if there is one root
	name   string            // set if there is one root

	leftOut []Process // descendants that the roots have started before

	member map[uint32]bool // by PID, whether its control group is selected
	again  bool            // a rejected process may be selected now
	asked  time.Time       // time of the last check of all control groups
}

func newSelection(o Selection, fs procfs.FS) (*selection, error) {
	s := &selection{
		Selection: o, fs: fs, family: map[uint32]bool{}, since: map[uint32]uint64{}, member: map[uint32]bool{},
		reused: map[uint32]bool{},
	}
	for _, pid := range o.PIDs {
		if err := s.addProcess(pid); err != nil {
			return nil, err
		}
	}
	for _, tid := range o.TIDs {
		pid, err := fs.Process(tid)
		if procfs.Gone(err) {
			return nil, &NoProcessError{ID: tid, Thread: true}
		} else if err != nil {
			return nil, fmt.Errorf("thread %d: %w", tid, err)
		}
		s.add(pid)
	}
	if s.Cgroup != "" {
		mounts, err := readMounts()
		if err != nil {
			return nil, err
		}
		s.locate(mounts)
	}
	if s.byCgroup() {
		s.cgroups = fs.Cgroups()
		if err := s.checkCgroups(); err != nil {
			return nil, errors.Join(err, s.cgroups.Close())
		}
	}
	if len(s.roots) == 1 {
		s.exe, _ = fs.ExePath(s.roots[0]) // empty for kernel threads
		s.name, _ = fs.Comm(s.roots[0])
	}
	return s, nil
}

// checkCPUs returns an error if a selected CPU is not online.
func (s *Selection) checkCPUs() error {
	if len(s.CPUs) == 0 {
		return nil
	}
	online, err := numa.Online()
	if err != nil {
		return fmt.Errorf("list CPUs: %w", err)
	}
	for _, cpu := range s.CPUs {
		if !slices.Contains(online, cpu) {
			return fmt.Errorf("there is no CPU %d, or it is not online", cpu)
		}
	}
	return nil
}

// addProcess selects a process.
func (s *selection) addProcess(pid uint32) error {
	switch of, err := s.fs.Process(pid); {
	case procfs.Gone(err):
		return &NoProcessError{ID: pid}
	case err != nil:
		return fmt.Errorf("process %d: %w", pid, err)
	case of != pid:
		return &NoProcessError{ID: pid, Of: of}
	}
	s.add(pid)
	return nil
}

func (s *selection) add(pid uint32) {
	if !s.family[pid] {
		s.roots = append(s.roots, pid)
	}
	s.family[pid] = true
}

// checkCgroups returns an error if no process is in the selected control group.
func (s *selection) checkCgroups() error {
	pids, err := s.fs.PIDs()
	if err != nil {
		return fmt.Errorf("list processes: %w", err)
	}
	if slices.ContainsFunc(pids, s.inCgroup) {
		return nil
	}
	switch {
	case s.Container != "":
		return fmt.Errorf("no running container has an ID that starts with %q", s.Container)
	case s.Unit != "":
		return fmt.Errorf("the systemd unit %q has no process", s.Unit)
	default:
		return fmt.Errorf("the control group %q has no process", s.Cgroup)
	}
}

// inCgroup reports whether a process is in the selected control group.
func (s *selection) inCgroup(pid uint32) bool {
	lines, err := s.cgroups.Cgroup(pid)
	return err == nil && s.Selection.fitsCgroup(lines)
}

// fitsCgroup reports whether the lines of /proc/PID/cgroup match Cgroup, Unit and Container.
func (s *Selection) fitsCgroup(lines []string) bool {
	inContainer := func(id string) bool { return strings.HasPrefix(id, s.Container) }
	if s.Container != "" && !slices.ContainsFunc(target.ContainerIDsFromCgroup(lines), inContainer) {
		return false
	}
	return (s.Cgroup == "" || slices.ContainsFunc(lines, s.isCgroup)) &&
		(s.Unit == "" || slices.ContainsFunc(lines, s.isUnit))
}

// isUnit reports whether a line of /proc/PID/cgroup belongs to the selected systemd unit.
func (s *Selection) isUnit(line string) bool {
	parts := strings.Split(line, "/")
	return slices.Contains(parts[1:], s.Unit) || slices.Contains(parts[1:], s.Unit+".service")
}

// hasProcess reports whether a process is selected.
func (s *selection) hasProcess(pid uint32) bool {
	if s.everything() {
		return true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.PIDs) > 0 || len(s.TIDs) > 0 || s.Command {
		if !s.family[pid] {
			return false
		}
	}
	if !s.byCgroup() {
		return true
	}
	member, known := s.member[pid]
	if !known {
		member = s.inCgroup(pid)
		s.member[pid] = member
	}
	return member
}

// hasSample reports whether a sample of a selected process is selected.
func (s *selection) hasSample(sample *kernel.Sample) bool {
	if len(s.CPUs) > 0 && !slices.Contains(s.CPUs, sample.CPU) {
		return false
	}
	if len(s.TIDs) > 0 && !slices.Contains(s.TIDs, sample.TID) {
		return false
	}
	if !s.Command {
		return true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return sample.Time >= s.since[sample.PID]
}

// observe tracks forks and execs of selected processes.
func (s *selection) observe(r *kernel.Record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch r.Kind {
	case kernel.RecordFork:
		if s.since[r.PID] != notBegun { // otherwise this is the fork of the command itself
			delete(s.since, r.PID)
		}
		delete(s.member, r.PID)
		switch {
		case s.family[r.Parent]:
			s.family[r.PID] = true
			s.again = true
		case !slices.Contains(s.roots, r.PID):
			delete(s.family, r.PID) // an earlier process had this ID
		case !s.Command:
			delete(s.family, r.PID)
			s.reused[r.PID] = true
		}
	case kernel.RecordExec:
		if s.Command && slices.Contains(s.roots, r.PID) && s.since[r.PID] == notBegun {
			s.since[r.PID] = r.Time
		}
	case kernel.RecordLost:
		clear(s.since) // the exec record may be lost
	}
}

// ended removes a process that has ended.
func (s *selection) ended(pid uint32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.member, pid)
}

// retryCgroups is the interval at which the control groups of processes are read again.
const retryCgroups = time.Second

// changed reports whether a rejected process may be selected now.
func (s *selection) changed(now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	changed := s.again
	s.again = false
	if s.byCgroup() && now.Sub(s.asked) >= retryCgroups {
		s.asked, changed = now, true
		clear(s.member)
	}
	return changed
}

// goneReason returns a text that says that all selected processes, or the command, have ended; "" if any still runs.
func (s *selection) goneReason() string {
	if s.Command {
		if s.command != nil && s.command.hasEnded() {
			return "the command has ended"
		}
		return ""
	}
	if len(s.roots) == 0 {
		return ""
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, pid := range s.roots {
		if !s.reused[pid] && s.fs.Lives(pid) {
			return ""
		}
	}
	if len(s.roots) == 1 {
		return fmt.Sprintf("process %d has ended", s.roots[0])
	}
	return "all of the processes have ended"
}

// executable returns the path of the executable if one process is recorded, otherwise "".
func (s *selection) executable() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.exe
}

func (s *selection) close() {
	if s.command != nil {
		s.command.endCommand()
	}
	if s.cgroups != nil {
		s.cgroups.Close()
	}
}
