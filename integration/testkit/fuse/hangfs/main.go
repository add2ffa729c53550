// Command hangfs mounts a FUSE file system with the files of a folder, and answers requests until the command hang:
//
//	hangfs MOUNTPOINT FOLDER
//
// Each line of its input is a command, "hang", "answer" or "drop", and hangfs confirms each with a line. While it hangs
// it receives requests without answering, like a server whose network is down: no signal ends the wait for an answer
// then, not even SIGKILL. After "drop", the kernel drops the cached pages of a file that is opened again; it keeps them
// otherwise. The command ends at the end of its input; waiting processes then get an error. It speaks the kernel's
// protocol itself (Linux, include/uapi/linux/fuse.h), because libraries for the protocol always answer.
package main

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"
)

// server serves a root directory with files. The kernel caches no answer but the content of files.
type server struct {
	fd    int
	files []file

	mu    sync.Mutex
	hangs bool
	kept  [][]byte // requests received while it hangs
	open  uint32   // flags of the answer to an open; FOPEN_ of the kernel
}

type file struct {
	name    string
	content []byte
}

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: hangfs MOUNTPOINT FOLDER")
		os.Exit(2)
	}
	s, err := mount(os.Args[1], os.Args[2])
	if err != nil {
		fmt.Fprintln(os.Stderr, "hangfs:", err)
		os.Exit(1)
	}
	go s.serve()
	fmt.Println("mounted")
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		switch in.Text() {
		case "drop":
			s.dropCache()
		default:
			s.setHanging(in.Text() == "hang")
		}
		fmt.Println(in.Text())
	}
}

// mount mounts a file system with copies of a folder's files, which are executable.
func mount(dir, folder string) (*server, error) {
	s := &server{open: keepCache}
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		content, err := os.ReadFile(filepath.Join(folder, e.Name()))
		if err != nil {
			return nil, err
		}
		s.files = append(s.files, file{e.Name(), content})
	}
	if s.fd, err = unix.Open("/dev/fuse", unix.O_RDWR|unix.O_NONBLOCK|unix.O_CLOEXEC, 0); err != nil {
		return nil, fmt.Errorf("open /dev/fuse: %w", err)
	}
	options := fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0,allow_other", s.fd)
	if err := unix.Mount("hanging", dir, "fuse", unix.MS_NODEV|unix.MS_NOSUID, options); err != nil {
		return nil, fmt.Errorf("mount a FUSE file system: %w", err)
	}
	return s, nil
}

// serve answers requests as long as the file system is mounted.
func (s *server) serve() {
	buf := make([]byte, 1<<20)
	for {
		poll := []unix.PollFd{{Fd: int32(s.fd), Events: unix.POLLIN}}
		if n, _ := unix.Poll(poll, -1); n <= 0 {
			continue
		}
		n, err := unix.Read(s.fd, buf)
		switch {
		case errors.Is(err, unix.EAGAIN), errors.Is(err, unix.EINTR), errors.Is(err, unix.ENOENT):
			continue
		case err != nil:
			return
		}
		s.takeRequest(buf[:n])
	}
}

// takeRequest answers a request, or keeps it while the server hangs.
func (s *server) takeRequest(request []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.hangs {
		s.kept = append(s.kept, bytes.Clone(request))
		return
	}
	s.answer(request)
}

// setHanging makes the server hang, or makes it answer the kept requests and all further ones.
func (s *server) setHanging(hang bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hangs = hang
	for !hang && len(s.kept) > 0 {
		s.answer(s.kept[0])
		s.kept = s.kept[1:]
	}
}

// keepCache in the answer to an open has the kernel keep the file's cached pages: FOPEN_KEEP_CACHE of the kernel.
const keepCache = 1 << 1

// dropCache has the kernel drop the cached pages of files that are opened again.
func (s *server) dropCache() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open = 0
}

// Operations with an answer; enum fuse_opcode.
const (
	opLookup      = 1
	opForget      = 2
	opGetattr     = 3
	opOpen        = 14
	opRead        = 15
	opStatfs      = 17
	opRelease     = 18
	opFlush       = 25
	opInit        = 26
	opOpendir     = 27
	opReleasedir  = 29
	opInterrupt   = 36
	opBatchForget = 42
)

const headerSize = 40 // of struct fuse_in_header

func (s *server) answer(request []byte) {
	order := binary.NativeEndian
	op, unique, node := order.Uint32(request[4:]), order.Uint64(request[8:]), order.Uint64(request[16:])
	body := request[headerSize:]
	switch op {
	case opForget, opInterrupt, opBatchForget: // these get no answer
	case opInit:
		out := make([]byte, 64)
		order.PutUint32(out, 7)
		order.PutUint32(out[4:], 31)
		copy(out[8:12], body[8:12])        // max_readahead
		order.PutUint32(out[20:], 128<<10) // max_write
		s.reply(unique, 0, out)
	case opLookup:
		for i, f := range s.files {
			if f.name == string(bytes.TrimRight(body, "\x00")) {
				out := make([]byte, 40, 128)
				order.PutUint64(out, uint64(i+2))
				s.reply(unique, 0, append(out, s.attributesOf(uint64(i+2))...))
				return
			}
		}
		s.reply(unique, unix.ENOENT, nil)
	case opGetattr:
		s.reply(unique, 0, append(make([]byte, 16), s.attributesOf(node)...))
	case opOpen:
		out := make([]byte, 16)
		order.PutUint32(out[8:], s.open)
		s.reply(unique, 0, out)
	case opOpendir:
		s.reply(unique, 0, make([]byte, 16))
	case opRead:
		s.reply(unique, 0, s.readFile(node, order.Uint64(body[8:]), order.Uint32(body[16:])))
	case opStatfs:
		s.reply(unique, 0, make([]byte, 80))
	case opRelease, opFlush, opReleasedir:
		s.reply(unique, 0, nil)
	default:
		s.reply(unique, unix.ENOSYS, nil)
	}
}

func (s *server) readFile(node, at uint64, size uint32) []byte {
	if node < 2 || node-2 >= uint64(len(s.files)) {
		return nil
	}
	content := s.files[node-2].content
	at = min(at, uint64(len(content)))
	return content[at:min(at+uint64(size), uint64(len(content)))]
}

// attributesOf is struct fuse_attr of a node; 1 is the root directory.
func (s *server) attributesOf(node uint64) []byte {
	order, out := binary.NativeEndian, make([]byte, 88)
	mode, size := uint32(unix.S_IFDIR|0o755), uint64(0)
	if node >= 2 && node-2 < uint64(len(s.files)) {
		mode, size = unix.S_IFREG|0o755, uint64(len(s.files[node-2].content))
	}
	order.PutUint64(out, node)
	order.PutUint64(out[8:], size)
	order.PutUint64(out[16:], (size+511)/512)
	order.PutUint32(out[60:], mode)
	order.PutUint32(out[64:], 1)     // links
	order.PutUint32(out[80:], 4<<10) // block size
	return out
}

// reply writes struct fuse_out_header and the body.
func (s *server) reply(unique uint64, errno unix.Errno, body []byte) {
	order := binary.NativeEndian
	out := make([]byte, 16, 16+len(body))
	order.PutUint32(out, uint32(16+len(body)))
	order.PutUint32(out[4:], uint32(-int32(errno)))
	order.PutUint64(out[8:], unique)
	_, _ = unix.Write(s.fd, append(out, body...)) // fails if the requesting process has ended
}
