package reference

import (
	"fmt"
	"os"
	"slices"
	"strconv"
)

// change is something that has happened to a process's address space.
type change struct {
	time    uint64
	mapping mapping
	file    *File // nil: none, or it cannot be opened
	err     error // why it cannot be opened
	exec    bool  // nothing of what was before is there any more
}

// process is the history of an address space. What an address was in at a time is the
// last change up to then that is about it.
type process struct {
	changes []change // in order of time
	parent  *process // what it was born with
	born    uint64
	ended   uint64 // 0: it lives
	scanned uint64 // when its maps were last read because an address was not found
}

// add adds a change where its time puts it. Events of several CPUs may come late.
func (p *process) add(c change) {
	at := len(p.changes)
	for at > 0 && p.changes[at-1].time > c.time {
		at--
	}
	p.changes = slices.Insert(p.changes, at, c)
}

// find returns the change that says what an address was in at a time, nil: nothing.
func (p *process) find(addr, time uint64) *change {
	for i := len(p.changes) - 1; i >= 0; i-- {
		c := &p.changes[i]
		switch {
		case c.time > time:
		case c.exec:
			return nil
		case addr >= c.mapping.start && addr < c.mapping.end:
			return c
		}
	}
	if p.parent != nil {
		return p.parent.find(addr, min(time, p.born))
	}
	return nil
}

// knows reports whether a mapping says nothing new, so that code that changes its
// protection all the time does not fill the history.
func (p *process) knows(m mapping, time uint64) bool {
	c := p.find(m.start, time)
	return c != nil && c.mapping == m && (len(p.changes) == 0 || p.changes[len(p.changes)-1].time <= time)
}

// keepEnded is how long a process is remembered after its end, and how long at most
// it stays in use as the parent of others, in ns.
const keepEnded = 5e9

// processes are the histories of all.
type processes struct {
	byPID map[uint32]*process
	files map[fileKey]*File
	vdso  *File
	lost  uint64 // how often events were lost
}

// fileKey is what the kernel calls a file. Files that are open keep theirs.
type fileKey struct {
	device device
	inode  uint64
}

func newProcesses() *processes {
	return &processes{byPID: map[uint32]*process{}, files: map[fileKey]*File{}, vdso: vdsoFile()}
}

// scan reads what all processes have mapped now.
func (ps *processes) scan(time uint64) error {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return fmt.Errorf("list processes: %w", err)
	}
	for _, entry := range entries {
		if pid, err := strconv.ParseUint(entry.Name(), 10, 32); err == nil {
			ps.scanOne(uint32(pid), time)
		}
	}
	return nil
}

// scanOne reads what a process has mapped now, and returns it; nil: it is gone.
func (ps *processes) scanOne(pid uint32, time uint64) *process {
	found, err := readMaps(int(pid))
	if err != nil {
		return nil
	}
	p := ps.byPID[pid]
	if p == nil {
		p = &process{}
		ps.byPID[pid] = p
	}
	for _, m := range found {
		if c := p.find(m.start, time); c == nil || c.mapping.start != m.start || c.mapping.inode != m.inode ||
			c.mapping.offset != m.offset {
			ps.mapped(p, pid, m, time)
		}
	}
	return p
}

func (ps *processes) mapped(p *process, pid uint32, m mapping, time uint64) {
	c := change{time: time, mapping: m}
	c.file, c.err = ps.open(pid, m)
	p.add(c)
}

// apply notes events.
func (ps *processes) apply(all []event) {
	for _, e := range all {
		p := ps.byPID[e.pid]
		if p == nil && e.kind != exited && e.kind != missed {
			p = &process{}
			ps.byPID[e.pid] = p
		}
		switch e.kind {
		case mapped:
			if !p.knows(e.mapping, e.time) {
				ps.mapped(p, e.pid, e.mapping, e.time)
			}
		case execed:
			p.add(change{time: e.time, exec: true})
		case forked:
			ps.forked(p, e)
		case exited:
			if p != nil {
				p.ended = e.time
			}
		case missed:
			ps.lost++
			_ = ps.scan(e.time) // /proc was there a moment ago
		}
	}
}

// forked begins a history, with what the child has already done if that was heard of
// first.
func (ps *processes) forked(p *process, e event) {
	if p.ended != 0 && p.ended <= e.time {
		*p = process{} // another one of that PID, which is nobody's parent any more
	}
	p.changes = slices.DeleteFunc(p.changes, func(c change) bool { return c.time < e.time })
	p.parent, p.born = ps.byPID[e.parent], e.time
}

// open returns the file of a mapping; nil without an error where there is none.
func (ps *processes) open(pid uint32, m mapping) (*File, error) {
	switch {
	case m.path == vdsoPath:
		return ps.vdso, nil
	case m.inode == 0:
		return nil, nil
	}
	key := fileKey{m.device, m.inode}
	if f := ps.files[key]; f != nil {
		return f, nil
	}
	file, err := openMapped(int(pid), m)
	if err != nil {
		return nil, err
	}
	f := &File{Path: m.path, source: file, file: file, used: true}
	ps.files[key] = f
	return f, nil
}

// openMapped opens the file that a process has mapped: by the mapping itself, or by
// another one of the same file, which works for deleted and hidden files too; or else
// by its name, in the process's root and in ours, if it is that file.
func openMapped(pid int, m mapping) (*os.File, error) {
	file, err := os.Open(fmt.Sprintf("/proc/%d/map_files/%x-%x", pid, m.start, m.end))
	if err == nil && isInode(file, m.inode) {
		return file, nil
	}
	now, _ := readMaps(pid) // none: it is gone
	for _, other := range now {
		if other.device != m.device || other.inode != m.inode {
			continue
		}
		if file, err := os.Open(fmt.Sprintf("/proc/%d/map_files/%x-%x", pid, other.start, other.end)); err == nil {
			return file, nil
		}
	}
	for _, name := range []string{fmt.Sprintf("/proc/%d/root%s", pid, m.path), m.path} {
		if file, err := os.Open(name); err == nil {
			if isInode(file, m.inode) {
				return file, nil
			}
			file.Close()
		}
	}
	return nil, &endError{ProcessGone, fmt.Sprintf("%s of process %d cannot be opened any more: %v", m.path, pid, err)}
}

func isInode(file *os.File, inode uint64) bool {
	info, err := file.Stat()
	return err == nil && inodeOf(info) == inode
}

// sweep forgets processes that ended a while ago and closes files that nobody maps.
func (ps *processes) sweep(now uint64) {
	for _, f := range ps.files {
		f.used = false
	}
	for pid, p := range ps.byPID {
		if p.ended != 0 && p.ended+keepEnded < now {
			delete(ps.byPID, pid)
			continue
		}
		p.flatten(now)
		for q := p; q != nil; q = q.parent {
			for _, c := range q.changes {
				if c.file != nil {
					c.file.used = true
				}
			}
		}
	}
	for key, f := range ps.files {
		if !f.used {
			f.close()
			delete(ps.files, key)
		}
	}
}

// flatten drops what no sample can ask for any more: what was before the last program
// began, the parent's changes among it.
func (p *process) flatten(now uint64) {
	for i := len(p.changes) - 1; i >= 0; i-- {
		if c := p.changes[i]; c.exec && c.time+keepEnded < now {
			p.changes, p.parent = slices.Clone(p.changes[i:]), nil
			return
		}
	}
}
