package procfs

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// Mappings returns all mappings of a process in the order of their addresses. Kernel threads have none. Zombies have
// none, unless only their first thread has ended.
func (f FS) Mappings(pid uint32) ([]Mapping, error) {
	return f.mappingsOf(pid, func(Perms, []byte) bool { return true })
}

func (f FS) mappingsOf(pid uint32, keep func(p Perms, path []byte) bool) ([]Mapping, error) {
	tid := f.thread(pid)
	found, err := mappings(f.pathOf(tid, "/maps"), keep)
	if err == nil && len(found) == 0 {
		if other := f.standIn(pid); other != tid {
			return mappings(f.pathOf(other, "/maps"), keep)
		}
	}
	return found, err
}

// SelfMappings returns all mappings of this process, whatever its PID is in the mounted file system.
func (f FS) SelfMappings() ([]Mapping, error) {
	return mappings(f.rootOrDefault()+"/self/maps", func(Perms, []byte) bool { return true })
}

// ExecMappings returns the executable mappings of a process, see Mappings.
func (f FS) ExecMappings(pid uint32) ([]Mapping, error) {
	return f.mappingsOf(pid, func(p Perms, _ []byte) bool { return p&Exec != 0 })
}

// CodeAndFiles returns the executable mappings of a process and those with a path, see Mappings.
func (f FS) CodeAndFiles(pid uint32) ([]Mapping, error) {
	return f.mappingsOf(pid, func(p Perms, path []byte) bool { return p&Exec != 0 || bytes.HasPrefix(path, []byte{'/'}) })
}

func mappings(path string, keep func(p Perms, path []byte) bool) ([]Mapping, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	mappings, err := parseMaps(file, keep)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", file.Name(), err)
	}
	return mappings, nil
}

// errMalformed says that a line of /proc/PID/maps does not have the form of proc(5).
var errMalformed = errors.New("malformed line")

// maxLine is longer than any line of /proc/PID/maps: a path has at most 4,096
// bytes, each shown as up to four.
const maxLine = 32 << 10

// MaxPaths bounds the bytes of the paths of one process: 65,530 mappings of files with long names would take 256 MiB.
// Further paths keep only their last element: first the paths of data, beyond half of MaxPaths.
const MaxPaths = 8 << 20

// parseMaps parses the content of /proc/PID/maps. It allocates only for the result, and paths of neighbouring mappings
// of one file share their memory.
func parseMaps(r io.Reader, keep func(p Perms, path []byte) bool) ([]Mapping, error) {
	var mappings []Mapping
	var rawPath []byte // of the last mapping kept
	paths := 0         // bytes of all paths
	lines := bufio.NewReaderSize(r, maxLine)
	for {
		line, err := lines.ReadSlice('\n')
		if len(line) > 0 && err != bufio.ErrBufferFull {
			m, path, ok := parseLine(bytes.TrimSuffix(line, []byte{'\n'}))
			if !ok {
				return nil, fmt.Errorf("%w %.100q", errMalformed, line)
			}
			if keep(m.Perms, path) {
				most := MaxPaths
				if m.Perms&Exec == 0 {
					most = MaxPaths / 2
				}
				if n := len(mappings); n > 0 && bytes.Equal(path, rawPath) && (!mappings[n-1].Shortened || paths >= most) {
					last := &mappings[n-1]
					m.Path, m.Deleted, m.Shortened = last.Path, last.Deleted, last.Shortened
				} else {
					m.Path, m.Deleted = decodePath(path)
					rawPath = append(rawPath[:0], path...)
					if paths+len(m.Path) > most {
						m.Path, m.Shortened = shortened(m.Path), true
					} else {
						paths += len(m.Path)
					}
				}
				mappings = append(mappings, m)
			}
		}
		switch err {
		case nil:
		case io.EOF:
			return mappings, nil
		case bufio.ErrBufferFull:
			return nil, fmt.Errorf("%w: longer than %d bytes", errMalformed, maxLine)
		default:
			return nil, err
		}
	}
}

// shortened returns the last element of an absolute path, below "/...".
func shortened(path string) string {
	if i := strings.LastIndexByte(path, '/'); i > 0 {
		return "/..." + path[i:]
	}
	return path
}

// parseLine parses "start-end perms offset major:minor inode path" and returns
// the path undecoded.
func parseLine(line []byte) (m Mapping, path []byte, ok bool) {
	p := lineParser{rest: line}
	m.Start = p.number(16, '-')
	m.End = p.number(16, ' ')
	m.Perms = p.perms()
	m.Offset = p.number(16, ' ')
	major := p.number(16, ':')
	minor := p.number(16, ' ')
	m.Inode = p.number(10, ' ')
	if p.failed || major > 1<<32-1 || minor > 1<<32-1 || m.End < m.Start {
		return Mapping{}, nil, false
	}
	m.Dev = unix.Mkdev(uint32(major), uint32(minor))
	return m, bytes.TrimLeft(p.rest, " "), true
}

// lineParser takes fields off the front of a line.
type lineParser struct {
	rest   []byte
	failed bool
}

// number takes a number in base 10 or 16, and the separator after it. The last field of a line may lack its separator
// if that is a space.
func (p *lineParser) number(base uint64, separator byte) uint64 {
	v, i := uint64(0), 0
	for ; i < len(p.rest); i++ {
		digit := digitValue(p.rest[i])
		if digit >= base {
			break
		}
		if v > (1<<64-1-digit)/base {
			p.failed = true
			return 0
		}
		v = v*base + digit
	}
	switch {
	case i > 0 && i < len(p.rest) && p.rest[i] == separator:
		p.rest = p.rest[i+1:]
	case i > 0 && i == len(p.rest) && separator == ' ':
		p.rest = nil
	default:
		p.failed = true
	}
	return v
}

// digitValue returns the value of a hexadecimal digit, or 255 for any other byte.
func digitValue(c byte) uint64 {
	switch {
	case c >= '0' && c <= '9':
		return uint64(c - '0')
	case c >= 'a' && c <= 'f':
		return uint64(c - 'a' + 10)
	}
	return 255
}

// perms takes "rwxp" and the space after it.
func (p *lineParser) perms() Perms {
	if len(p.rest) < 5 || p.rest[4] != ' ' {
		p.failed = true
		return 0
	}
	var perms Perms
	for i, letter := range [...]byte{'r', 'w', 'x', 's'} {
		switch c := p.rest[i]; {
		case c == letter:
			perms |= 1 << i
		case c == '-' && letter != 's', c == 'p' && letter == 's':
		default:
			p.failed = true
		}
	}
	p.rest = p.rest[5:]
	return perms
}

// decodePath reverses the changes that the kernel makes to paths: \012 for a line feed, and " (deleted)" after the path
// of a file without a name.
func decodePath(path []byte) (decoded string, deleted bool) {
	if len(path) > 0 && path[0] == '/' {
		path, deleted = bytes.CutSuffix(path, []byte(" (deleted)"))
	}
	if bytes.Contains(path, []byte(`\012`)) {
		path = bytes.ReplaceAll(path, []byte(`\012`), []byte("\n"))
	}
	return string(path), deleted
}
