// Package retry is for tests that judge samples of real programs by their numbers: other work of the machine may spoil
// one attempt, while a defect spoils all attempts. It is not for properties that must hold each time: leaks, counts,
// exit codes, the process of a sample.
//
// Each failed attempt is added to the file that the environment variable HEADWATER_RETRIES names, and "make test"
// prints the number of attempts: go test prints no output of a test that finally succeeds.
package retry

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
)

// attempts is the number of failed attempts after which a test fails.
const attempts = 3

// retriesFile is the variable that names the file of failed attempts.
const retriesFile = "HEADWATER_RETRIES"

// T is a testing.T that belongs to one attempt. Its cleanups run at the end of the attempt.
type T struct {
	*testing.T
	path     string // names of the enclosing parts
	mu       sync.Mutex
	failures []string
	failed   bool
	cleanups []func()
}

// Run repeats test until an attempt does not fail. Only the failures of the last attempt are failures of t; earlier
// failures are logged and recorded.
func Run(t *testing.T, test func(t *T)) {
	t.Helper()
	for n := 1; ; n++ {
		attempt := &T{T: t}
		attempt.runOnce(test)
		if attempt.Failed() {
			attempt.record(n)
		}
		switch {
		case !attempt.Failed() || t.Skipped():
			return
		case n == attempts:
			for _, failure := range attempt.failures {
				t.Error(failure)
			}
			t.Fatalf("none of %d attempts succeeded", attempts)
		}
		for _, failure := range attempt.failures {
			t.Logf("attempt %d of %d: %s", n, attempts, failure)
		}
	}
}

// record adds the failures to the file of failed attempts: a line with the number of the attempt, then the failures'
// lines, indented.
func (t *T) record(n int) {
	path := os.Getenv(retriesFile)
	if path == "" {
		return
	}
	text := fmt.Sprintf("%s: attempt %d of %d has failed\n", t.Name(), n, attempts)
	for _, failure := range t.failures {
		text += "\t" + strings.ReplaceAll(strings.TrimSpace(failure), "\n", "\n\t") + "\n"
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		t.T.Fatalf("%s: %v", retriesFile, err)
	}
	_, err = f.WriteString(text) // in one write: packages are tested in parallel
	if err = errors.Join(err, f.Close()); err != nil {
		t.T.Fatalf("%s: %v", retriesFile, err)
	}
}

// runOnce runs test until it returns or calls FailNow, and then the cleanups.
func (t *T) runOnce(test func(t *T)) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer t.cleanUp()
		test(t)
	}()
	<-done
}

func (t *T) cleanUp() {
	for {
		t.mu.Lock()
		last := len(t.cleanups) - 1
		if last < 0 {
			t.mu.Unlock()
			return
		}
		clean := t.cleanups[last]
		t.cleanups = t.cleanups[:last]
		t.mu.Unlock()
		clean()
	}
}

// Run runs a part of the attempt. FailNow only ends the part.
func (t *T) Run(name string, test func(t *T)) bool {
	part := &T{T: t.T, path: t.path + name + ": "}
	part.runOnce(test)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.failures = append(t.failures, part.failures...)
	t.failed = t.failed || part.failed
	return !part.failed
}

func (t *T) report(text string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.failures = append(t.failures, t.path+text)
	t.failed = true
}

// Cleanup registers f to be called at the end of the attempt, or of its part.
func (t *T) Cleanup(f func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.cleanups = append(t.cleanups, f)
}

// Fail marks the attempt as failed.
func (t *T) Fail() { t.report("failed") }

// FailNow is like Fail, and ends the attempt or its part.
func (t *T) FailNow() {
	t.Fail()
	runtime.Goexit()
}

// Failed reports whether the attempt has failed so far.
func (t *T) Failed() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.failed
}

// Error marks the attempt as failed, for that reason.
func (t *T) Error(args ...any) { t.report(fmt.Sprint(args...)) }

// Errorf marks the attempt as failed, for that reason.
func (t *T) Errorf(format string, args ...any) { t.report(fmt.Sprintf(format, args...)) }

// Fatal is like Error, and ends the attempt or its part.
func (t *T) Fatal(args ...any) {
	t.Error(args...)
	runtime.Goexit()
}

// Fatalf is like Errorf, and ends the attempt or its part.
func (t *T) Fatalf(format string, args ...any) {
	t.Errorf(format, args...)
	runtime.Goexit()
}
