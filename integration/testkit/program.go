package testkit

import (
	"os"
	"os/exec"
	"testing"
)

// CopyProgram copies a program to a path where it will be executed.
//
// Another process writes the file: otherwise a child that a parallel test starts in the meantime would inherit the file
// open for writing, and the kernel does not execute such a file ("text file busy").
func CopyProgram(t testing.TB, from, to string) {
	t.Helper()
	if out, err := exec.Command("cp", from, to).CombinedOutput(); err != nil {
		t.Fatalf("cp %s %s: %v\n%s", from, to, err, out)
	}
	if err := os.Chmod(to, 0o755); err != nil {
		t.Fatal(err)
	}
}

// WriteProgram is like [CopyProgram], for a file with the given content.
func WriteProgram(t testing.TB, path string, content []byte) {
	t.Helper()
	written := path + ".written"
	if err := os.WriteFile(written, content, 0o644); err != nil {
		t.Fatal(err)
	}
	CopyProgram(t, written, path)
	if err := os.Remove(written); err != nil {
		t.Fatal(err)
	}
}
