// Package fuse mounts a file system that stops to answer, for tests of what must
// not wait for it.
package fuse

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// Server is a mounted file system whose root directory has files. A process of its own
// serves it (hangfs): the kernel ends no process that waits for its answer, not even
// with SIGKILL, so that a test that served itself could hang for ever.
type Server struct {
	Dir string // where it is mounted

	input  io.WriteCloser
	output *bufio.Reader
	ended  chan error // of the process
}

// Mount mounts a file system with the given files, by name, at a directory that it
// makes in dir. They are executable. Close it after use.
func Mount(dir string, files map[string][]byte) (*Server, error) {
	s := &Server{Dir: filepath.Join(dir, "fuse")}
	program, folder := filepath.Join(dir, "hangfs"), filepath.Join(dir, "files")
	for _, dir := range []string{s.Dir, folder} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			return nil, err
		}
	}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(folder, name), content, 0o644); err != nil {
			return nil, err
		}
	}
	build := exec.Command("go", "build", "-o", program, "github.com/headwater/headwater/integration/testkit/fuse/hangfs")
	if out, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%v: %w\n%s", build, err, out)
	}
	return s, s.start(program, folder)
}

// start starts the process that serves. It is killed when this one ends, by the end of
// the thread that has started it: pipes stay open while a thread waits for an answer.
func (s *Server) start(program, folder string) (err error) {
	cmd := exec.Command(program, s.Dir, folder)
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if s.input, err = cmd.StdinPipe(); err != nil {
		return err
	}
	output, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	s.output = bufio.NewReader(output)
	started := make(chan error)
	s.ended = make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		err := cmd.Start()
		if started <- err; err == nil {
			s.ended <- cmd.Wait()
		}
	}()
	if err := <-started; err != nil {
		return err
	}
	return s.confirm("mounted")
}

// Hang stops answering.
func (s *Server) Hang() error { return s.tell("hang") }

// Answer answers again, also what was asked meanwhile.
func (s *Server) Answer() error { return s.tell("answer") }

func (s *Server) tell(what string) error {
	if _, err := fmt.Fprintln(s.input, what); err != nil {
		return err
	}
	return s.confirm(what)
}

func (s *Server) confirm(what string) error {
	if line, err := s.output.ReadString('\n'); err != nil || line != what+"\n" {
		return errors.Join(fmt.Errorf("hangfs says %q, not %q", line, what), err)
	}
	return nil
}

// Close ends the file system. Who waits for it gets an error.
func (s *Server) Close() error {
	s.input.Close()
	err := <-s.ended // with it goes the connection, and all requests
	return errors.Join(err, unix.Unmount(s.Dir, unix.MNT_DETACH))
}
