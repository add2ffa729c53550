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
	"testing"

	"golang.org/x/sys/unix"

	"github.com/headwater/headwater/integration/testkit"
	"github.com/headwater/headwater/integration/testkit/need"
)

// Server is a mounted file system whose root directory contains files. A separate process serves it (hangfs): the
// kernel does not end a process that waits for its answer, not even with SIGKILL, so a test that served the file system
// itself could hang indefinitely.
type Server struct {
	Dir string // mount point

	input  io.WriteCloser
	output *bufio.Reader
	ended  <-chan error // of the process
}

// Mount mounts a file system with the given files, by name, on a directory that it creates in dir, until the end of the
// test. The files are executable. It calls [need.Missing] if that is not possible.
func Mount(t testing.TB, dir string, files map[string][]byte) *Server {
	t.Helper()
	s := &Server{Dir: filepath.Join(dir, "fuse")}
	if err := s.mount(dir, files); err != nil {
		need.Missing(t, "%v", err)
	}
	t.Cleanup(func() {
		if err := s.close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func (s *Server) mount(dir string, files map[string][]byte) error {
	program, folder := filepath.Join(dir, "hangfs"), filepath.Join(dir, "files")
	for _, dir := range []string{s.Dir, folder} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			return err
		}
	}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(folder, name), content, 0o644); err != nil {
			return err
		}
	}
	build := exec.Command("go", "build", "-o", program, "github.com/headwater/headwater/integration/testkit/fuse/hangfs")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("%v: %w\n%s", build, err, out)
	}
	return s.start(program, folder)
}

// start starts the serving process.
func (s *Server) start(program, folder string) (err error) {
	cmd := exec.Command(program, s.Dir, folder)
	cmd.Stderr = os.Stderr
	if s.input, err = cmd.StdinPipe(); err != nil {
		return err
	}
	output, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	s.output = bufio.NewReader(output)
	if s.ended, err = testkit.Start(cmd); err != nil {
		return err
	}
	return s.confirm("mounted")
}

// Hang stops answering until Answer is called, or until the test ends. The server then answers before the cleanups that
// were registered earlier: these may wait for the end of a program that waits for an answer.
func (s *Server) Hang(t testing.TB) {
	t.Helper()
	t.Cleanup(func() { s.Answer(t) })
	if err := s.sendCommand("hang"); err != nil {
		t.Fatal(err)
	}
}

// DropCache has the kernel drop the cached pages of a file that is opened again: a program in the file then waits for
// the server before it runs on. By default the kernel keeps them, because the session of another test may open the file
// at any time.
func (s *Server) DropCache(t testing.TB) {
	t.Helper()
	if err := s.sendCommand("drop"); err != nil {
		t.Fatal(err)
	}
}

// Answer resumes answering, including the requests received in the meantime.
func (s *Server) Answer(t testing.TB) {
	t.Helper()
	if err := s.sendCommand("answer"); err != nil {
		t.Error(err)
	}
}

func (s *Server) sendCommand(what string) error {
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

// close ends the file system. Waiting processes get an error.
func (s *Server) close() error {
	s.input.Close()
	err := <-s.ended // the end closes the connection, which ends all requests
	return errors.Join(err, unix.Unmount(s.Dir, unix.MNT_DETACH))
}
