// Package javawork starts Java VMs whose program does what tests say, and knows its allocations and times of waiting.
package javawork

import (
	"bufio"
	_ "embed"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/headwater/headwater/integration/testkit"
	"github.com/headwater/headwater/integration/testkit/need"
)

//go:embed Work.java
var source []byte

// VM is a VM that runs Work.java.
type VM struct {
	PID int

	t   testing.TB
	in  io.Writer
	out *bufio.Reader
}

// Start starts a VM of a user by a command java and its options. At the end of the test, it ends, and nothing may be
// left of its recordings.
func Start(t testing.TB, java string, user uint32, options ...string) *VM {
	t.Helper()
	need.Root(t)
	need.Tools(t, "java", "javac", "jcmd")
	key := []string{testkit.Version(t, "javac"), string(source)}
	classes := testkit.Fixture(t, "work.java", key, func(dir string) error {
		file := filepath.Join(dir, "Work.java")
		if err := os.WriteFile(file, source, 0o600); err != nil {
			return err
		}
		return exec.Command("javac", "-nowarn", "-Xlint:-options", "--release", "8", "-d", dir, file).Run()
	})
	dir, copied := t.TempDir(), t.TempDir() // other users cannot read the fixture's folder
	if err := os.CopyFS(copied, os.DirFS(classes)); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Dir(dir), 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(java, append(options, "-XX:+UseG1GC", "-Xmx256m", "-cp", copied, "Work")...)
	cmd.Dir, cmd.Stderr = dir, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: user, Gid: user}}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	w := &VM{PID: cmd.Process.Pid, t: t, in: in, out: bufio.NewReader(out)}
	t.Cleanup(func() {
		in.Close()
		if err := cmd.Wait(); err != nil {
			t.Errorf("the program ends with %v", err)
		}
		if found, _ := filepath.Glob(filepath.Join(dir, "*")); len(found) > 0 {
			t.Errorf("its working directory has %v", found)
		}
	})
	if line := w.line(); line != "ready" {
		t.Fatalf("the program says %q", line)
	}
	return w
}

func (w *VM) line() string {
	w.t.Helper()
	line, err := w.out.ReadString('\n')
	if err != nil {
		w.t.Fatalf("the program has written %q: %v", line, err)
	}
	return strings.TrimSpace(line)
}

// Work has the program do something n times, or wait for n milliseconds, and returns its figure: bytes or
// nanoseconds. what is the name of a method of Work.java. Large objects are never in a buffer of a thread, because the
// VM has the collector G1. The program's clock counts the nanoseconds: they include the thread's wait for a CPU.
func (w *VM) Work(what string, n int) int64 {
	w.t.Helper()
	fmt.Fprintln(w.in, what, n)
	figure, err := strconv.ParseInt(w.line(), 10, 64)
	if err != nil {
		w.t.Fatal(err)
	}
	return figure
}

// JCmd returns what the JDK's jcmd prints for a command.
func (w *VM) JCmd(command string) string {
	w.t.Helper()
	out, err := exec.Command("jcmd", strconv.Itoa(w.PID), command).CombinedOutput()
	if err != nil {
		w.t.Fatalf("%v: %s", err, out)
	}
	return string(out)
}
