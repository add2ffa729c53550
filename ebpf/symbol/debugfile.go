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

// debugFinder finds separate debug files, in the order of the GDB manual,
// "Separate Debug Files": by build ID in the debug directories, then by the name
// in .gnu_debuglink next to the file, in .debug next to it, and in the debug
// directories under the file's own path. Each place is looked at below the
// process's root first and then on this host.
type debugFinder struct {
	dirs  []string
	work  *filework.Pool // looks at the places
	spill elffile.Spill  // for their compressed sections
	sums  *checkSums     // of files found by link

	mu     sync.Mutex
	remote Fetcher // asked last; nil: nobody
}

func (d *debugFinder) fetcher() Fetcher {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.remote
}

// Fetcher brings debug files from elsewhere; a debuginfod.Client is one.
type Fetcher interface {
	// Path returns the debug file of a build ID if it is there. If not it may be
	// later; the error says how things stand. Path does not wait.
	Path(buildID string) (string, error)
}

// wanted is what a debug file is looked for by.
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

// candidate is a path where a debug file may be.
type candidate struct {
	path   string
	byLink bool
}

// findPatience is how long the places below one root are looked at.
const findPatience = 2 * time.Second

// find returns the debug file, open, if there is one that has symbols and belongs to the
// file. The error says which places took too long, and why it is not known of a file that
// is there whether it belongs to it.
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
	debug *elffile.File // nil: there is none
	path  string
	own   bool // it is below a root that is not this host's: others who run an equal program may have another
}

func (f found) close() {
	if f.debug != nil {
		f.debug.Close()
	}
}

// origin is where the files below a root come from that w is looked for in: one folder
// that hangs must not keep others from being looked at.
func (w *wanted) origin(root string) filework.Origin {
	namespace, err := os.Readlink(path.Join(path.Dir(path.Clean(root)), "ns/mnt"))
	if err != nil {
		namespace = root
	}
	return filework.Origin{Mount: fmt.Sprintf("%s of %s of user %d", path.Dir(w.path), namespace, w.owner),
		Owner: w.owner}
}

// findBelow looks at the places below one root. What others than this host's
// administrator can let hang is not used for names, which are read much later; nor is a
// file of somebody who could not have written the program itself.
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

// hostRoot reports whether the root directory of a process is our own.
func hostRoot(root string) bool {
	return root == "" || root == "/" || procfs.SameFolder(root, "/")
}

// fetch is find for a debug file that is elsewhere. The error says why there is
// none; it is nil if there is nobody to ask.
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

// accept returns f as an ELF file if it has symbols or DWARF and belongs to the file with
// w's build ID, or if it was named by its link and has that CRC; nil if not, and it
// closes f then. The error says why that could not be found out.
func (d *debugFinder) accept(f procfs.File, w *wanted, byLink bool) (*elffile.File, error) {
	debug, err := elffile.NewFromFile(f)
	if err != nil {
		return nil, nil // closed already
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
