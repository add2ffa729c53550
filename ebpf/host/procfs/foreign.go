package procfs

import (
	"encoding/binary"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/headwater/headwater/ebpf/host/procfs/helper"
)

// File is a regular file that is open for reading. A local file, see Local, is an *os.File, and reading it does not
// hang. Reads of other files may block forever, but they do not keep this process from working or from ending.
type File interface {
	io.ReaderAt
	io.Closer
	Name() string
	Stat() (fs.FileInfo, error) // its Sys is a *unix.Stat_t or a *syscall.Stat_t
}

// Open opens a regular file for reading. name is an absolute path below the root directory root. Symbolic links, also
// absolute ones, stay inside root: a container must not send us to files of the host. With root "", name is a path of
// this host, and links of /proc are also followed.
//
// Open opens no other kinds of files, because opening one can have an effect: it wakes the other end of a pipe, rewinds
// a tape, starts a watchdog.
//
// The helper makes all system calls that depend on a file system that may not answer.
func Open(root, name string) (File, error) { return openForeign(root, name, anyOwner) }

// OpenOwned is like Open for a file that must belong to the user uid or to root. Otherwise, the error is ErrNotOwned.
func OpenOwned(root, name string, uid uint32) (File, error) {
	return openForeign(root, name, int64(uid))
}

// OpenLink is like Open for a link of /proc that leads to a file of a process with the root directory root. The file
// may have any name.
func OpenLink(root, name string) (File, error) {
	return openBy(root, "", name, anyOwner, func() (int, error) { return findLink(name) })
}

const anyOwner = -1

func openForeign(root, name string, owner int64) (File, error) {
	if root == "" {
		if !filepath.IsAbs(name) { // the helper is in another folder
			var err error
			if name, err = filepath.Abs(name); err != nil {
				return nil, err
			}
		}
		if ownLink(name) {
			return openHere(root, root, name, owner)
		}
	}
	return openBy(root, root, name, owner, func() (int, error) { return findQuickly(root, name) })
}

// ownLink reports whether a path means a different file in each process.
func ownLink(name string) bool {
	for _, start := range []string{"/proc/self/", "/proc/thread-self/", "/dev/fd/", "/dev/std"} {
		if strings.HasPrefix(name, start) {
			return true
		}
	}
	return false
}

// openBy opens a file in this process if the file is certainly local, and otherwise through the helper. name is a path
// below the directory below; root is the root directory of the process that has the file.
func openBy(root, below, name string, owner int64, find func() (path int, err error)) (File, error) {
	path, err := find()
	if err == nil {
		defer unix.Close(path)
		if knownLocal(root, path) {
			return openFound(path, below+name, acceptOwner(owner))
		}
		err = errMayHang
	}
	if !errors.Is(err, errMayHang) {
		return nil, err
	}
	f, err := askFor(root, below, name, owner)
	if errors.Is(err, helper.ErrNone) {
		return openHere(root, below, name, owner)
	}
	return f, err
}

// openHere opens a file in this process. The process cannot end while the file's server does not answer.
func openHere(root, below, name string, owner int64) (File, error) {
	f, err := openBelow(below, name, acceptOwner(owner))
	if err != nil {
		return nil, err
	}
	if Local(root, f) {
		return f, nil
	}
	return ownForeign{f}, nil
}

// ownForeign is a file that is not local, but that this process reads itself because there is no helper.
type ownForeign struct{ *os.File }

// StatOf returns the present status of an open file.
func StatOf(f File) (*unix.Stat_t, error) {
	switch f := f.(type) {
	case *foreign:
		return f.statNow()
	case ownForeign:
		return statOf(f.File)
	case *os.File:
		return statOf(f)
	}
	return nil, errors.ErrUnsupported
}

func statOf(f *os.File) (*unix.Stat_t, error) {
	stat := &unix.Stat_t{}
	if err := unix.Fstat(int(f.Fd()), stat); err != nil {
		return nil, &os.PathError{Op: "fstat", Path: f.Name(), Err: err}
	}
	return stat, nil
}

// foreign is a file that the helper reads.
type foreign struct {
	name string

	mu      sync.Mutex
	channel *helper.Channel // nil if closed
}

func (f *foreign) Name() string { return f.name }

// callHelper sends a request about the file to the helper. The answer starts with an error number.
func (f *foreign) callHelper(op string, request, reply []byte) (n int, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.channel == nil {
		return 0, &os.PathError{Op: op, Path: f.name, Err: os.ErrClosed}
	}
	n, _, err = f.channel.Call(request, reply)
	if err == nil {
		err = errorOf(reply[:n])
	}
	if err != nil {
		return 0, &os.PathError{Op: op, Path: f.name, Err: err}
	}
	return n, nil
}

// ReadAt implements io.ReaderAt.
func (f *foreign) ReadAt(b []byte, off int64) (done int, err error) {
	reply := make([]byte, answerSize+min(len(b), maxRead))
	for done < len(b) {
		size := min(len(b)-done, maxRead)
		request := binary.NativeEndian.AppendUint64([]byte{opRead}, uint64(off)+uint64(done))
		request = binary.NativeEndian.AppendUint32(request, uint32(size))
		n, err := f.callHelper("read", request, reply[:answerSize+size])
		if err != nil {
			return done, err
		}
		if n == answerSize {
			return done, io.EOF
		}
		done += copy(b[done:], reply[answerSize:n])
	}
	return done, nil
}

// Stat implements File.
func (f *foreign) Stat() (fs.FileInfo, error) {
	stat, err := f.statNow()
	if err != nil {
		return nil, err
	}
	return fileInfo{filepath.Base(f.name), *stat}, nil
}

func (f *foreign) statNow() (*unix.Stat_t, error) {
	reply := make([]byte, answerSize+unsafe.Sizeof(unix.Stat_t{}))
	if _, err := f.callHelper("fstat", []byte{opStat}, reply); err != nil {
		return nil, err
	}
	return statIn(reply[answerSize:]), nil
}

// Close implements File. It does not wait: the helper closes the file.
func (f *foreign) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.channel == nil {
		return os.ErrClosed
	}
	f.channel.Close()
	f.channel = nil
	return nil
}

// fileInfo is a fs.FileInfo of a regular file.
type fileInfo struct {
	name string
	stat unix.Stat_t
}

func (i fileInfo) Name() string       { return i.name }
func (i fileInfo) Size() int64        { return i.stat.Size }
func (i fileInfo) Mode() fs.FileMode  { return fs.FileMode(i.stat.Mode & 0o777) }
func (i fileInfo) ModTime() time.Time { return time.Unix(i.stat.Mtim.Unix()) }
func (i fileInfo) IsDir() bool        { return false }
func (i fileInfo) Sys() any           { return &i.stat }

// askFor asks the helper to open a file.
func askFor(root, below, name string, owner int64) (File, error) {
	c, err := helper.Take()
	if err != nil {
		return nil, err
	}
	request := binary.NativeEndian.AppendUint64([]byte{opOpen}, uint64(owner))
	request = append(request, strings.Join([]string{root, below, name}, "\x00")...)
	reply := make([]byte, answerSize+unsafe.Sizeof(unix.Stat_t{}))
	n, fd, err := c.Call(request, reply)
	if err == nil {
		if err = errorOf(reply[:n]); err != nil && n > answerSize {
			err = &RefusedError{*statIn(reply[answerSize:n]), err}
		}
	}
	switch {
	case err != nil:
		c.Put()
		return nil, &os.PathError{Op: "open", Path: below + name, Err: err}
	case fd >= 0:
		c.Put()
		return os.NewFile(uintptr(fd), below+name), nil
	}
	return &foreign{name: below + name, channel: c}, nil
}

// Requests to the helper, by their first byte, in this machine's byte order. An answer starts with an error number.
const (
	opOpen   = iota // owner (8 bytes), root, below, name, zeros between: a descriptor, or a file for the requests below
	opRead          // offset (8), size (4): bytes
	opStat          // : unix.Stat_t
	opMemory        // process (4), size of each piece (4), addresses (8 each): bytes

	answerSize = 4
	maxRead    = 64 << 10
)

// Error numbers of the helper that are not the system's.
const (
	notRegular = 1 << 16
	notOwned   = notRegular + 1
	otherError = notOwned + 1
)

func errorOf(reply []byte) error {
	if len(reply) < answerSize {
		return io.ErrUnexpectedEOF
	}
	switch n := binary.NativeEndian.Uint32(reply); n {
	case 0:
		return nil
	case notRegular:
		return ErrNotRegular
	case notOwned:
		return ErrNotOwned
	case otherError:
		return errors.New("the helper has failed")
	default:
		return unix.Errno(n)
	}
}

// answer returns the start of an answer.
func answer(err error) []byte {
	var errno unix.Errno
	n := uint32(0)
	switch {
	case err == nil:
	case errors.Is(err, ErrNotRegular):
		n = notRegular
	case errors.Is(err, ErrNotOwned):
		n = notOwned
	case errors.As(err, &errno):
		n = uint32(errno)
	default:
		n = otherError
	}
	return binary.NativeEndian.AppendUint32(make([]byte, 0, answerSize), n)
}

// statIn returns a copy of the unix.Stat_t in b.
func statIn(b []byte) *unix.Stat_t {
	stat := &unix.Stat_t{}
	copy(unsafe.Slice((*byte)(unsafe.Pointer(stat)), unsafe.Sizeof(*stat)), b)
	return stat
}

func bytesOf(stat *unix.Stat_t) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(stat)), unsafe.Sizeof(*stat))
}

// init serves as the helper, and does not return, in a process that was started as the helper.
func init() {
	helper.Serve(func() helper.Handler { return &server{} }, func() {
		if own, err := OwnPages(); err == nil {
			_ = ReleasePages(own) // pages that Go touches when it starts, 20 MB of a large executable
		}
	})
}

// server answers requests in the helper.
type server struct {
	file  *os.File // nil if none is open
	reply []byte
}

// Answer implements helper.Handler.
func (s *server) Answer(request []byte) (reply []byte, fd int) {
	order := binary.NativeEndian
	switch op, body := request[0], request[1:]; {
	case op == opOpen && len(body) >= 8:
		return s.openFile(int64(order.Uint64(body)), string(body[8:]))
	case op == opRead && len(body) == 12 && s.file != nil:
		return s.readFile(int64(order.Uint64(body)), min(order.Uint32(body[8:]), maxRead)), -1
	case op == opStat && s.file != nil:
		stat, err := statOf(s.file)
		if err != nil {
			return answer(err), -1
		}
		return append(answer(nil), bytesOf(stat)...), -1
	case op == opMemory && len(body) >= 8:
		return s.memory(order.Uint32(body), order.Uint32(body[4:]), body[8:]), -1
	}
	return answer(unix.EINVAL), -1
}

// Close implements helper.Handler.
func (s *server) Close() {
	if s.file != nil {
		s.file.Close()
	}
}

func (s *server) openFile(owner int64, names string) (reply []byte, fd int) {
	path := strings.SplitN(names, "\x00", 3)
	if len(path) != 3 {
		return answer(unix.EINVAL), -1
	}
	f, err := openBelow(path[1], path[2], acceptOwner(owner))
	if err != nil {
		reply, refused := answer(err), (*RefusedError)(nil)
		if errors.As(err, &refused) {
			reply = append(reply, bytesOf(&refused.Stat)...)
		}
		return reply, -1
	}
	if !Local(path[0], f) {
		s.Close()
		s.file = f
		return answer(nil), -1
	}
	defer f.Close()
	if fd, err = unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0); err != nil {
		return answer(err), -1
	}
	return answer(nil), fd
}

func (s *server) readFile(off int64, size uint32) []byte {
	reply := s.replyRoom(size)
	for {
		n, err := unix.Pread(int(s.file.Fd()), reply[answerSize:], off)
		switch {
		case err == unix.EINTR:
			continue
		case err != nil:
			return answer(err)
		}
		return reply[:answerSize+n]
	}
}

// replyRoom returns an answer without an error, with room for size more bytes.
func (s *server) replyRoom(size uint32) []byte {
	if uint32(cap(s.reply)) < answerSize+size {
		s.reply = make([]byte, answerSize+size)
	}
	s.reply = s.reply[:answerSize+size]
	clear(s.reply[:answerSize])
	return s.reply
}

func (s *server) memory(pid, size uint32, addrs []byte) []byte {
	pieces := uint32(len(addrs) / 8)
	if pieces == 0 || pieces > maxPieces || size == 0 || uint64(pieces)*uint64(size) > maxMemory {
		return answer(unix.EINVAL)
	}
	remote := make([]unix.RemoteIovec, pieces)
	for i := range remote {
		remote[i] = unix.RemoteIovec{Base: uintptr(binary.NativeEndian.Uint64(addrs[8*i:])), Len: int(size)}
	}
	reply := s.replyRoom(pieces * size)
	n, err := readMemory(pid, reply[answerSize:], remote)
	if err != nil {
		return answer(err)
	}
	return reply[:answerSize+n]
}
