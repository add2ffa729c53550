package jit

import (
	"bytes"
	"errors"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/headwater/headwater/ebpf/host/procfs"
)

// Limits on reading the files of one process.
const (
	chunk       = 256 << 10 // bytes of one read
	MaxLine     = 64 << 10  // bytes of a line of a map
	MaxRead     = 256 << 20 // bytes of all files in one burst, however often they are rewritten
	MaxReadRate = 4 << 20   // bytes a second after the burst
	edge        = 4 << 10   // bytes at both ends of the read part that are compared each time
	maxFileEnd  = 1 << 40   // maximum offset that is read
)

// growing is a file that is read incrementally, as long as the part read so far is unchanged.
type growing struct {
	root, name string // path below the process's root
	uid        uint32 // user of its process
	file       procfs.File
	stat       unix.Stat_t // at the last read
	at         int64       // end of the read part

	head, tail []byte // start of the read part, and end of it before at
	broken     bool   // the rest cannot be parsed
}

// openGrowing opens a regular file below directory root that belongs to user uid or to root, or returns nil. Files of
// other users could contain anything.
func openGrowing(root, name string, uid uint32) *growing {
	f, err := procfs.OpenOwned(root, name, uid)
	if err != nil {
		return nil
	}
	return &growing{root: root, name: name, uid: uid, file: f}
}

// renew checks whether the file still has the content read so far. If the name belongs to a different file, or the file
// was overwritten, renew resets the file to its start and returns true. A file whose name is gone is kept.
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

// restart resets the file, so that it is read from the start.
func (g *growing) restart() { g.at, g.head, g.tail, g.broken = 0, nil, nil, false }

// reopen opens the file that has the name now, and reports whether it is a different file.
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

// sameEdges reports whether the ends of the read part are unchanged.
func (g *growing) sameEdges() bool {
	return g.holds(g.head, 0) && g.holds(g.tail, g.at-int64(len(g.tail)))
}

func (g *growing) holds(want []byte, at int64) bool {
	got := make([]byte, len(want))
	_, err := g.file.ReadAt(got, at)
	return (err == nil || err == io.EOF) && bytes.Equal(got, want)
}

// readGrown calls parse with the unread part, and with the number of bytes left in the file from its first byte on;
// parse returns the number of bytes that it used. read stops after an error of parse, and when left is exhausted. skip
// skips holes, which contain no text.
func (g *growing) readGrown(skip bool, left *allowance, parse func(b []byte, left int64) (used int64, err error)) {
	size := min(g.stat.Size, maxFileEnd)
	if g.broken || g.at >= size {
		return
	}
	buf := make([]byte, min(chunk, size-g.at))
	for g.at < size && !g.broken {
		if skip {
			g.skipHole()
		}
		if !left.takeBytes(int64(len(buf))) {
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

// skipHole moves to the next data of a sparse file.
func (g *growing) skipHole() {
	file, local := g.file.(*os.File)
	if !local {
		return
	}
	switch data, err := unix.Seek(int(file.Fd()), g.at, unix.SEEK_DATA); {
	case errors.Is(err, unix.ENXIO): // no data follows
		g.at, g.tail = g.stat.Size, nil
	case err == nil && data-g.at >= chunk:
		g.at, g.tail = data, nil
	}
}

// passed records that parse used bytes, which start with b.
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

// allowance limits the bytes that are read from a process's files. The zero value allows MaxRead.
type allowance struct {
	spent int64
	last  time.Time
}

func (a *allowance) takeBytes(n int64) bool {
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
