package process

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/headwater/headwater/ebpf/common/clock"
	"github.com/headwater/headwater/ebpf/common/limit"
	"github.com/headwater/headwater/ebpf/host/filework"
	"github.com/headwater/headwater/ebpf/host/procfs"
	"github.com/headwater/headwater/ebpf/language"
)

// Command is work on files or on processes' memory. It runs without a lock.
type Command interface {
	// run does the work and returns the resulting Event.
	run(t *Tracker) Event
}

// scan reads the state of a process from /proc.
type scan struct {
	pid     uint32
	process *Process // the process when the scan was requested; nil if unknown
	execs   int      // execs of the process at that time
	from    int      // number of reported mappings at that time
	name    bool     // whether to read the name
	then    Event    // applied afterwards; nil if none
}

// scanCommand returns the command that reads the state of a process from /proc.
func (s *state) scanCommand(pid uint32, then Event) scan {
	c := scan{pid: pid, process: s.processes[pid], name: true, then: then}
	if p := c.process; p != nil {
		c.execs, c.from, c.name = p.execs, len(p.reported), p.started == 0 || p.comm == ""
		p.scans++
	}
	return c
}

func (c scan) run(t *Tracker) Event {
	found := scanned{scan: c}
	what := fmt.Sprintf("reading the mappings of process %d", c.pid)
	maps, err := filework.Get(t.exes.work, filework.OfMemory(t.fs, c.pid), what, t.exes.patience,
		func() ([]procfs.Mapping, error) { return t.fs.CodeAndFiles(c.pid) }, nil)
	if filework.Scarce(err) {
		t.noteError(err)
		t.exes.retry(c.pid)
	}
	if err != nil {
		return found
	}
	code := slices.DeleteFunc(slices.Clone(maps), func(m procfs.Mapping) bool { return m.Perms&procfs.Exec == 0 })
	t.limits.Note(beyondPaths(c.pid, code))
	if c.name && len(code) > 0 {
		found.comm, _ = t.fs.Comm(c.pid) // a process that has gone has none
	}
	if t.fs.Leaderless(c.pid) {
		t.noteLone(c.pid)
	}
	found.mappings = t.findMovedText(c.pid, t.locate(c.pid, code), maps)
	found.at, found.until = time.Now(), clock.Monotonic()
	return found
}

// beyondPaths returns an error if paths of a process's mappings were shortened, and nil otherwise.
func beyondPaths(pid uint32, maps []procfs.Mapping) error {
	if !slices.ContainsFunc(maps, func(m procfs.Mapping) bool { return m.Shortened }) {
		return nil
	}
	return limit.Hit(limit.Maps, fmt.Errorf("mappings of process %d: paths of more than %d bytes", pid, procfs.MaxPaths))
}

// locate finds the files of the mappings that a process has now.
func (t *Tracker) locate(pid uint32, maps []procfs.Mapping) []located {
	now := clock.Monotonic()
	all := make([]located, 0, len(maps))
	for i, m := range maps {
		if i > 0 && all[i-1].exe != nil && m.Inode != 0 && fileOf(&m) == fileOf(&maps[i-1]) {
			t.exes.keepExecutable(all[i-1].exe)
			all = append(all, located{Mapping: m, exe: all[i-1].exe})
			continue
		}
		all = append(all, located{Mapping: m, exe: t.executable(now, pid, m)})
	}
	return all
}

// executable returns the executable of m, which a process had at a time, with a new reference.
func (t *Tracker) executable(at uint64, pid uint32, m procfs.Mapping) *Executable {
	e, fresh := t.exes.getExecutable(at, pid, m)
	t.noteNew(e, fresh)
	return e
}

// noteNew notes the error of an executable that is new.
func (t *Tracker) noteNew(e *Executable, fresh bool) {
	if fresh && e.Err != nil {
		t.noteError(e.Err)
	}
}

// open finds the file of a new mapping.
type open struct {
	mapped
	process *Process
}

func (c open) run(t *Tracker) Event {
	c.exe = t.executable(c.time, c.pid, c.mapping)
	return opened(c)
}

// attach asks a language runtime for its code in a process.
type attach struct {
	process    *Process
	attachment *attachment
	last       bool // do not ask again if the runtime has not started
}

// attachments returns the commands that ask runtimes for their code, in processes that are about to be pushed to the
// store. Until the code is found, a walk that reaches memory that may hold it ends there, as in unknown memory.
func (s *state) attachments(now time.Time) (commands []Command) {
	for _, p := range s.dirty {
		if s.processes[p.PID] != p || p.ended != 0 || !p.rested(now) {
			continue
		}
		for _, a := range p.attached {
			if len(a.waiting) == 0 || a.busy || now.Sub(a.tried) < retryAttach {
				continue
			}
			if a.tried, a.busy = now, true; a.first.IsZero() {
				a.first = now
			}
			commands = append(commands, attach{p, a, now.Sub(a.first) >= retriesAttach})
		}
	}
	return commands
}

func (c attach) run(t *Tracker) Event {
	pid, a := c.process.PID, c.attachment
	code, err := a.library.Attach(language.Process{PID: pid, Bias: a.bias, Memory: t.memory(pid)})
	if filework.Later(err) || errors.Is(err, language.ErrNotReady) && !c.last {
		return attached{attach: c, retry: true}
	}
	var made *JITCode
	if err == nil {
		made, err = t.exes.addCode(pid, code)
	}
	if err != nil && !procfs.Gone(err) && !errors.Is(err, language.ErrUnknown) {
		t.noteError(err)
	}
	return attached{attach: c, code: made}
}
