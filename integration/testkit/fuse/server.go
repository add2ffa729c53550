// Package fuse mounts a file system that can stop answering, for tests of code that must not wait for it.
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

// Server is a mounted file system whose root directory contains files. A separate process serves it (hangfs): the
// kernel does not end a process that waits for its answer, not even with SIGKILL, so a test that served the file system
// itself could hang indefinitely.
type Server struct {
	Dir string // mount point

	input  io.WriteCloser
	output *bufio.Reader
	ended  chan error // of the process
}

// Mount mounts a file system with the given files, by name, on a directory that it creates in dir. The files are
// executable. The caller must close the server.
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

// start starts the serving process. The kernel kills it when the thread that started it ends, and so when this process
// ends: its pipes alone would stay open while a thread waits for an answer.
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

// Answer resumes answering, including the requests received in the meantime.
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

// Close ends the file system. Waiting processes get an error.
func (s *Server) Close() error {
	s.input.Close()
	err := <-s.ended // the end closes the connection, which ends all requests
	return errors.Join(err, unix.Unmount(s.Dir, unix.MNT_DETACH))
}
