package fuse

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestServer reads a file, lets the server hang, and reads on when it answers.
func TestServer(t *testing.T) {
	s := Mount(t, t.TempDir(), map[string][]byte{"hello": []byte("world")})
	read := func() string {
		b, err := os.ReadFile(filepath.Join(s.Dir, "hello"))
		if err != nil {
			t.Error(err)
		}
		return string(b)
	}
	if got := read(); got != "world" {
		t.Fatalf("%q", got)
	}
	s.Hang(t)
	done := make(chan string)
	go func() { done <- read() }()
	select {
	case got := <-done:
		t.Fatalf("it answers: %q", got)
	case <-time.After(200 * time.Millisecond):
	}
	s.Answer(t)
	if got := <-done; got != "world" {
		t.Errorf("%q", got)
	}
}
