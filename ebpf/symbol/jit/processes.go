package jit

import (
	"fmt"
	"io"
	"os"
	"path"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/headwater/headwater/ebpf/procfs"
)

// lookAgain is how often a process is looked at again that has neither a map nor
// a dump: compilers begin late.
const lookAgain = 10 * time.Second

// Processes knows the code that compilers made in processes. The files of a process
// are opened when it is observed, so that its code can be named when it is gone.
// Its methods may be called concurrently.
type Processes struct {
	fs procfs.FS

	mu    sync.Mutex
	known map[uint32]*process
}

// process is one process.
type process struct {
	looked time.Time
	gone   bool
	perf   *growing // map, nil if there is none
	dump   *growing // jitdump, nil if there is none
	reader dump
	table  table
}

// growing is a file that is read on from where it ended.
type growing struct {
	file *os.File
	at   int64
}

// New returns an empty Processes.
func New(fs procfs.FS) *Processes { return &Processes{fs: fs, known: map[uint32]*process{}} }

// Observe tells that code outside of any file runs in a process. It opens the
// files of a process that is new, and costs next to nothing otherwise.
func (p *Processes) Observe(pid uint32) {
	p.mu.Lock()
	defer p.mu.Unlock()
	known := p.known[pid]
	if known == nil {
		known = &process{}
		p.known[pid] = known
	}
	if known.perf != nil && known.dump != nil || time.Since(known.looked) < lookAgain {
		return
	}
	known.looked = time.Now()
	known.open(p.fs, pid)
}

// Frame names an address of a process. ok is false if nothing is known there.
func (p *Processes) Frame(pid uint32, addr uint64) (f Frame, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	known := p.known[pid]
	if known == nil {
		return Frame{}, false
	}
	known.read()
	return known.table.find(addr)
}

// Ended tells that a process has ended. It is known until Forget.
func (p *Processes) Ended(pid uint32) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if known := p.known[pid]; known != nil {
		known.gone = true
	}
}

// Restarted tells that a process runs another program: nothing is known of it any
// more.
func (p *Processes) Restarted(pid uint32) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.forget(pid)
}

// Gone returns the processes that have ended, to be forgotten when their samples
// are named.
func (p *Processes) Gone() (pids []uint32) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for pid, known := range p.known {
		if known.gone {
			pids = append(pids, pid)
		}
	}
	return pids
}

// Forget forgets processes.
func (p *Processes) Forget(pids []uint32) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, pid := range pids {
		p.forget(pid)
	}
}

// Close forgets everything.
func (p *Processes) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for pid := range p.known {
		p.forget(pid)
	}
}

func (p *Processes) forget(pid uint32) {
	known := p.known[pid]
	if known == nil {
		return
	}
	for _, g := range []*growing{known.perf, known.dump} {
		if g != nil {
			g.file.Close()
		}
	}
	delete(p.known, pid)
}

// open opens what there is of the files of a process, as it sees them itself.
func (k *process) open(fs procfs.FS, pid uint32) {
	inner, uid, err := fs.Identity(pid)
	if err != nil {
		return
	}
	root := fs.RootPath(pid, "")
	if k.perf == nil {
		k.perf = openGrowing(root, fmt.Sprintf("/tmp/perf-%d.map", inner), uid)
	}
	if k.dump == nil {
		if name := dumpPath(fs, pid, inner); name != "" {
			k.dump = openGrowing(root, name, uid)
		}
	}
}

// dumpPath returns the path of the jitdump that a process has mapped: compilers
// map a page of it for perf to see.
func dumpPath(fs procfs.FS, pid, inner uint32) string {
	mappings, err := fs.ExecMappings(pid)
	if err != nil {
		return ""
	}
	want := fmt.Sprintf("jit-%d.dump", inner)
	for _, m := range mappings {
		if path.Base(m.Path) == want && strings.HasPrefix(m.Path, "/") {
			return m.Path
		}
	}
	return ""
}

// openGrowing opens a regular file that belongs to the user uid or to root, below
// the directory root; nil if there is none. Others could make us believe anything.
func openGrowing(root, name string, uid uint32) *growing {
	f, err := procfs.OpenBelow(root, name)
	if err != nil {
		return nil
	}
	info, err := f.Stat()
	if err == nil && info.Mode().IsRegular() {
		if stat, ok := info.Sys().(*syscall.Stat_t); ok && (stat.Uid == uid || stat.Uid == 0) {
			return &growing{file: f}
		}
	}
	f.Close()
	return nil
}

// read reads on in both files.
func (k *process) read() {
	if k.perf.shrunk() || k.dump.shrunk() { // written anew
		k.table, k.reader = table{}, dump{}
		for _, g := range []*growing{k.perf, k.dump} {
			if g != nil {
				g.at = 0
			}
		}
	}
	if k.perf != nil {
		k.perf.read(func(b []byte) (used, need int, err error) { return k.table.parsePerfMap(b), maxLine, nil })
	}
	if k.dump != nil {
		k.dump.read(func(b []byte) (used, need int, err error) { return k.reader.parse(&k.table, b) })
	}
}

// Sizes of what is read.
const (
	chunk   = 256 << 10
	maxLine = 64 << 10 // bytes of a line of a map
	maxRead = 1 << 30  // bytes of a file
)

// shrunk reports whether the file is shorter than what was read of it.
func (g *growing) shrunk() bool {
	var stat unix.Stat_t
	return g != nil && g.at < maxRead && unix.Fstat(int(g.file.Fd()), &stat) == nil && stat.Size < g.at
}

// read hands what is new to parse, which returns how much of it it used and how
// much it needs to use more. After an error nothing more is read.
func (g *growing) read(parse func([]byte) (used, need int, err error)) {
	var stat unix.Stat_t
	if unix.Fstat(int(g.file.Fd()), &stat) != nil || stat.Size <= g.at {
		return
	}
	buf := make([]byte, min(chunk, stat.Size-g.at))
	for g.at < maxRead {
		n, err := g.file.ReadAt(buf, g.at)
		used, need, failed := parse(buf[:n])
		g.at += int64(used)
		switch {
		case failed != nil:
			g.at = maxRead
			return
		case used == 0 && n == len(buf) && need > len(buf):
			if buf = make([]byte, need); int64(need) > stat.Size-g.at {
				return // not all of it is written yet
			}
		case err == io.EOF && used == 0, err != nil && err != io.EOF, used == 0:
			return
		}
	}
}
