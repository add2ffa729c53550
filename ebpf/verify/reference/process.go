package reference

import (
	"fmt"
	"os"
	"slices"
	"strconv"
)

// change is a change of a process's address space.
type change struct {
	time    uint64
	mapping mapping
	file    *File // nil if there is none, or if it cannot be opened
	err     error // error of opening the file
	exec    bool  // an exec, which removes all earlier mappings
}

// process is the history of an address space. The mapping of an address at a time is the last earlier change that
// covers the address.
type process struct {
	changes []change // in order of time
	parent  *process // address space that it inherited at born
	born    uint64
	ended   uint64 // 0 while it is running
	scanned uint64 // time of the last read of its maps for an unknown address
}

// addChange inserts a change in order of time. Events of different CPUs may arrive out of order.
func (p *process) addChange(c change) {
	at := len(p.changes)
	for at > 0 && p.changes[at-1].time > c.time {
		at--
	}
	p.changes = slices.Insert(p.changes, at, c)
}

// findMapping returns the change with the mapping of an address at a time, or nil if there is none.
func (p *process) findMapping(addr, time uint64) *change {
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
		return p.parent.findMapping(addr, min(time, p.born))
	}
	return nil
}

// knows reports whether a mapping is already known, so that code that keeps changing its protection does not fill the
// history.
func (p *process) knows(m mapping, time uint64) bool {
	c := p.findMapping(m.start, time)
	return c != nil && c.mapping == m && (len(p.changes) == 0 || p.changes[len(p.changes)-1].time <= time)
}

// keepEnded is the time in ns for which a process is kept after its end, and the history before an exec after that
// exec.
const keepEnded = 5e9

// processes holds the histories of all processes.
type processes struct {
	byPID map[uint32]*process
	files map[fileKey]*File
	vdso  *File
	lost  uint64 // how often events were lost
}

// fileKey is the kernel's identity of a file. It does not change while the file is open.
type fileKey struct {
	device device
	inode  uint64
}

func newProcesses() *processes {
	return &processes{byPID: map[uint32]*process{}, files: map[fileKey]*File{}, vdso: vdsoFile()}
}

// scanHost reads the current mappings of all processes.
func (ps *processes) scanHost(time uint64) error {
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

// scanOne reads the current mappings of a process, and returns the process, or nil if it is gone.
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
		if c := p.findMapping(m.start, time); c == nil || c.mapping.start != m.start || c.mapping.inode != m.inode ||
			c.mapping.offset != m.offset {
			ps.mapped(p, pid, m, time)
		}
	}
	return p
}

func (ps *processes) mapped(p *process, pid uint32, m mapping, time uint64) {
	c := change{time: time, mapping: m}
	c.file, c.err = ps.openFile(pid, m)
	p.addChange(c)
}

// apply adds events to the histories.
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
			p.addChange(change{time: e.time, exec: true})
		case forked:
			ps.forked(p, e)
		case exited:
			if p != nil {
				p.ended = e.time
			}
		case missed:
			ps.lost++
			_ = ps.scanHost(e.time) // Open has already listed /proc
		}
	}
}

// forked starts the history of a child. It keeps changes of the child that were read before the fork event.
func (ps *processes) forked(p *process, e event) {
	if p.ended != 0 && p.ended <= e.time {
		*p = process{} // an earlier process had this PID, and is no longer used as a parent
	}
	p.changes = slices.DeleteFunc(p.changes, func(c change) bool { return c.time < e.time })
	p.parent, p.born = ps.byPID[e.parent], e.time
}

// openFile returns the file of a mapping, or nil without an error if the mapping has no file.
func (ps *processes) openFile(pid uint32, m mapping) (*File, error) {
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

// openMapped opens the file of a mapping: through the mapping itself or another mapping of the same file, which also
// works for deleted and hidden files, or else by its name in the root of the process and in the root of this process,
// if the name leads to the same file.
func openMapped(pid int, m mapping) (*os.File, error) {
	file, err := os.Open(fmt.Sprintf("/proc/%d/map_files/%x-%x", pid, m.start, m.end))
	if err == nil && isInode(file, m.inode) {
		return file, nil
	}
	now, _ := readMaps(pid) // none if the process is gone
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

// sweep removes processes that ended some time ago, and closes files that no process maps.
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

// flatten drops the changes before the last exec, including the parent's changes, once no sample can need them.
func (p *process) flatten(now uint64) {
	for i := len(p.changes) - 1; i >= 0; i-- {
		if c := p.changes[i]; c.exec && c.time+keepEnded < now {
			p.changes, p.parent = slices.Clone(p.changes[i:]), nil
			return
		}
	}
}
