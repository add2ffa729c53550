package jit

import (
	"bytes"
	"errors"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/headwater/headwater/ebpf/procfs"
)

// Limits on reading the files of one process.
const (
	chunk       = 256 << 10 // at once
	MaxLine     = 64 << 10  // bytes of a line of a map
	MaxRead     = 256 << 20 // bytes of all files at once, however often they are written again
	MaxReadRate = 4 << 20   // and bytes a second afterwards
	edge        = 4 << 10   // at both ends of what was read, compared each time
	maxFileEnd  = 1 << 40   // offset that is read up to
)

// growing is a file that is read on from where it ended, as long as what was read of
// it is still there.
type growing struct {
	root, name string // where it was opened
	uid        uint32 // of its process
	file       procfs.File
	stat       unix.Stat_t // when it was read
	at         int64       // it was read up to here

	head, tail []byte // at the beginning of what was read, and before at
	broken     bool   // what follows cannot be understood
}

// openGrowing opens a regular file that belongs to the user uid or to root, below
// the directory root; nil if there is none. Others could make us believe anything.
func openGrowing(root, name string, uid uint32) *growing {
	f, err := procfs.OpenOwned(root, name, uid)
	if err != nil {
		return nil
	}
	return &growing{root: root, name: name, uid: uid, file: f}
}

// renew looks whether the file is still what was read of it. If another one has its
// name, or somebody has written over it, it is to be read from the beginning, and
// renew reports that. A file whose name is gone stays as it is.
func (g *growing) renew() bool {
	if g == nil {
		return false
	}
	replaced := g.reopen()
	stat, err := procfs.StatOf(g.file)
	if err != nil {
		return replaced
	}
	rewritten := stat.Size < g.at || stat.Size == g.at && g.at > 0 && stat.Mtim != g.stat.Mtim || !g.sameEdges()
	g.stat = *stat
	if !replaced && !rewritten {
		return false
	}
	g.restart()
	return true
}

// restart lets the file be read from its beginning.
func (g *growing) restart() { g.at, g.head, g.tail, g.broken = 0, nil, nil, false }

// reopen opens the file that has the name now, and reports whether it is another.
func (g *growing) reopen() bool {
	now := openGrowing(g.root, g.name, g.uid)
	if now == nil {
		return false
	}
	old, before := procfs.StatOf(g.file)
	fresh, after := procfs.StatOf(now.file)
	if before == nil && after == nil && old.Dev == fresh.Dev && old.Ino == fresh.Ino {
		now.file.Close()
		return false
	}
	g.file.Close()
	g.file = now.file
	return true
}

// sameEdges reports whether the ends of what was read are in the file still.
func (g *growing) sameEdges() bool {
	return g.holds(g.head, 0) && g.holds(g.tail, g.at-int64(len(g.tail)))
}

func (g *growing) holds(want []byte, at int64) bool {
	got := make([]byte, len(want))
	_, err := g.file.ReadAt(got, at)
	return (err == nil || err == io.EOF) && bytes.Equal(got, want)
}

// read hands what is new to parse, with how much of the file there is from its first
// byte on; parse returns how much of that it used. After an error nothing more is
// read, nor beyond what left allows. skip passes over holes, which no text has.
func (g *growing) read(skip bool, left *allowance, parse func(b []byte, left int64) (used int64, err error)) {
	size := min(g.stat.Size, maxFileEnd)
	if g.broken || g.at >= size {
		return
	}
	buf := make([]byte, min(chunk, size-g.at))
	for g.at < size && !g.broken {
		if skip {
			g.skipHole()
		}
		if !left.take(int64(len(buf))) {
			return
		}
		n, err := g.file.ReadAt(buf, g.at)
		used, failed := parse(buf[:n], size-g.at)
		g.passed(buf[:n], used)
		g.broken = failed != nil
		if used == 0 || err != nil && err != io.EOF {
			return
		}
	}
}

// skipHole goes on to the next bytes that a sparse file has.
func (g *growing) skipHole() {
	file, local := g.file.(*os.File)
	if !local {
		return
	}
	switch data, err := unix.Seek(int(file.Fd()), g.at, unix.SEEK_DATA); {
	case errors.Is(err, unix.ENXIO): // there are no more
		g.at, g.tail = g.stat.Size, nil
	case err == nil && data-g.at >= chunk:
		g.at, g.tail = data, nil
	}
}

// passed notes that bytes were used, the first of which are in b.
func (g *growing) passed(b []byte, used int64) {
	if used == 0 {
		return
	}
	seen := b[:min(used, int64(len(b)))]
	if more := min(edge-len(g.head), len(seen)); int64(len(g.head)) == g.at && more > 0 {
		g.head = append(g.head, seen[:more]...)
	}
	g.at += used
	if g.tail = append(g.tail, seen...); used > int64(len(b)) {
		g.tail = nil
	}
	g.tail = bytes.Clone(g.tail[max(0, len(g.tail)-edge):])
}

func (g *growing) close() {
	if g != nil {
		g.file.Close()
	}
}

// allowance is how many bytes may be read of a process's files. The zero value
// allows MaxRead.
type allowance struct {
	spent int64
	last  time.Time
}

func (a *allowance) take(n int64) bool {
	now := time.Now()
	if !a.last.IsZero() {
		a.spent = max(0, a.spent-int64(now.Sub(a.last).Seconds()*MaxReadRate))
	}
	a.last = now
	if a.spent+n > MaxRead {
		return false
	}
	a.spent += n
	return true
}
