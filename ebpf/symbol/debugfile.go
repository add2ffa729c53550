package symbol

import (
	"errors"
	"fmt"
	"os"
	"path"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/headwater/headwater/ebpf/elffile"
	"github.com/headwater/headwater/ebpf/filework"
	"github.com/headwater/headwater/ebpf/procfs"
)

// debugFinder finds separate debug files, in the order of the GDB manual, "Separate Debug Files": by build ID in the
// debug directories, then by the name in .gnu_debuglink next to the file, in .debug next to it, and in the debug
// directories under the file's own path. Each place is checked first below the process's root, then on this host.
type debugFinder struct {
	dirs  []string
	work  *filework.Pool // for the search
	spill elffile.Spill  // for compressed sections of debug files
	sums  *checkSums     // of debug files found by link

	mu     sync.Mutex
	remote Fetcher // asked last; nil if there is none
}

func (d *debugFinder) fetcher() Fetcher {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.remote
}

// Fetcher downloads debug files; a debuginfod.Client is one.
type Fetcher interface {
	// Path returns the debug file of a build ID if it is available. If not, it may become available later; the error
	// has the current state. Path does not block.
	Path(buildID string) (string, error)
}

// wanted is the search key of a debug file.
type wanted struct {
	path, root string // of the object
	owner      uint32 // of the process
	fileOwner  uint32
	buildID    string
	link       string // name in .gnu_debuglink
	crc        uint32
}

func wantedOf(o *Object, file *elffile.File) wanted {
	w := wanted{path: o.Path, root: o.Root, owner: o.Owner, buildID: file.BuildID()}
	w.link, w.crc, _ = file.DebugLink()
	var stat unix.Stat_t
	if unix.Fstat(file.Fd(), &stat) == nil {
		w.fileOwner = stat.Uid
	}
	return w
}

// candidate is a possible path of a debug file.
type candidate struct {
	path   string
	byLink bool
}

// findPatience is the time limit of a search below one root.
const findPatience = 2 * time.Second

// find returns the debug file, open, if there is one that has symbols and belongs to the file. The error has the places
// that took too long, and the reasons why a found file could not be matched.
func (d *debugFinder) find(w wanted) (file found, slow error) {
	roots := []string{w.root}
	if w.root != "" && w.root != "/" {
		roots = append(roots, "")
	}
	for _, root := range roots {
		what := "looking for the debug file of " + w.path
		file, err := filework.Get(d.work, w.origin(root), what, findPatience,
			func() (found, error) { return d.findBelow(root, w) }, found.close)
		if file.debug != nil {
			return file, nil
		}
		slow = errors.Join(slow, err)
	}
	return found{}, slow
}

// found is a debug file.
type found struct {
	debug *elffile.File // nil if there is none
	path  string
	own   bool // it is below a root other than this host's: the debug file of an equal program elsewhere may differ
}

func (f found) close() {
	if f.debug != nil {
		f.debug.Close()
	}
}

// origin returns the origin of files below a root for w: a folder that hangs must not block the search in other
// folders.
func (w *wanted) origin(root string) filework.Origin {
	namespace, err := os.Readlink(path.Join(path.Dir(path.Clean(root)), "ns/mnt"))
	if err != nil {
		namespace = root
	}
	return filework.Origin{Mount: fmt.Sprintf("%s of %s of user %d", path.Dir(w.path), namespace, w.owner),
		Owner: w.owner}
}

// findBelow searches the places below one root. Files on file systems that a user other than this host's administrator
// can block are not used, because names are read much later; nor are files of a user who could not have written the
// program.
func (d *debugFinder) findBelow(root string, w wanted) (found, error) {
	var unclear error
	for _, c := range d.candidates(w.path, w.buildID, w.link) {
		f, err := procfs.OpenOwned(root, c.path, w.fileOwner)
		if err != nil {
			continue
		}
		if _, local := f.(*os.File); root != "" && !local {
			f.Close()
			continue
		}
		debug, err := d.accept(f, &w, c.byLink)
		if debug != nil {
			return found{debug, f.Name(), !hostRoot(root)}, nil
		}
		unclear = errors.Join(unclear, err)
	}
	return found{}, unclear
}

// hostRoot reports whether the root directory of a process is the root directory of this host.
func hostRoot(root string) bool {
	return root == "" || root == "/" || procfs.SameFolder(root, "/")
}

// fetch is find for a debug file that must be downloaded. The error is the reason why there is none; it is nil if there
// is no Fetcher.
func (d *debugFinder) fetch(w wanted) (debug *elffile.File, name string, err error) {
	remote := d.fetcher()
	if remote == nil || w.buildID == "" {
		return nil, "", nil
	}
	path, err := remote.Path(w.buildID)
	if err != nil {
		return nil, "", err
	}
	f, err := procfs.Open("", path)
	if err != nil {
		return nil, "", err
	}
	if debug, _ = d.accept(f, &w, false); debug == nil {
		return nil, "", fmt.Errorf("%s: not the debug file of build ID %s", path, w.buildID)
	}
	return debug, path, nil
}

func (d *debugFinder) candidates(objectPath, buildID, link string) []candidate {
	var all []candidate
	if len(buildID) > 2 {
		for _, dir := range d.dirs {
			all = append(all, candidate{path: path.Join(dir, ".build-id", buildID[:2], buildID[2:]+".debug")})
		}
	}
	if link == "" || !strings.HasPrefix(objectPath, "/") {
		return all
	}
	own := path.Dir(objectPath)
	all = append(all, candidate{path.Join(own, link), true}, candidate{path.Join(own, ".debug", link), true})
	for _, dir := range d.dirs {
		all = append(all, candidate{path.Join(dir, own, link), true})
	}
	return all
}

// accept returns f as an ELF file if it has symbols or DWARF and matches w: by build ID, or, for a file found by link,
// by CRC. Otherwise it closes f and returns nil. The error is the reason why the match could not be checked.
func (d *debugFinder) accept(f procfs.File, w *wanted, byLink bool) (*elffile.File, error) {
	debug, err := elffile.NewFromFile(f)
	if err != nil {
		return nil, nil // NewFromFile has closed f
	}
	matches := debug.HasSymtab() || debug.HasSection(debugInfo)
	if theirs := debug.BuildID(); w.buildID != "" && theirs != "" {
		matches = matches && theirs == w.buildID
	} else if matches = matches && byLink; matches {
		var sum uint32
		sum, err = d.sums.of(f)
		matches = err == nil && sum == w.crc
	}
	if !matches {
		debug.Close()
		return nil, err
	}
	return debug, nil
}
