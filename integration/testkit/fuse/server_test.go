package fuse

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/headwater/headwater/integration/testkit/need"
)

// TestServer reads a file, lets the server hang, and reads on when it answers.
func TestServer(t *testing.T) {
	s, err := Mount(t.TempDir(), map[string][]byte{"hello": []byte("world")})
	if err != nil {
		need.Missing(t, "%v", err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
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
	if err := s.Hang(); err != nil {
		t.Fatal(err)
	}
	done := make(chan string)
	go func() { done <- read() }()
	select {
	case got := <-done:
		t.Fatalf("it answers: %q", got)
	case <-time.After(200 * time.Millisecond):
	}
	if err := s.Answer(); err != nil {
		t.Fatal(err)
	}
	if got := <-done; got != "world" {
		t.Errorf("%q", got)
	}
}
