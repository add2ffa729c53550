// Package recorder starts and reads recordings of Java VMs, each time in a process of its own: files of a VM's root
// directory may hang, connecting as the VM's user changes the whole process, and a hostile recording may need any
// amount of memory.
//
// A recording runs for one interval, and ends after the next one has started: no event is missed. A VM also ends a
// recording by itself after some intervals, so a killed profiler leaves no recording. The process finishes its request
// even if the profiler is killed, and removes its files.
package recorder

import (
	"bytes"
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/headwater/headwater/component/pyroscope/java/attach"
	"github.com/headwater/headwater/component/pyroscope/java/jfr"
	"github.com/headwater/headwater/flame/pprof"
)

// Name is the command line of the process.
const Name = "headwater-java"

// Limits.
const (
	maxRecording = 64 << 20 // bytes of a recording that the VM keeps
	maxMemory    = 2 << 30  // bytes of address space of the process above the idle process
	maxAnswer    = 256 << 20
)

// Request is an instruction to the process.
type Request struct {
	PID   int
	Dir   string    // for files in the VM's root directory, such as "/tmp"
	Stop  string    // name of the recording to end and read; "" for none
	Since time.Time // start of the recording to end; its profiles have the time

	Start    string        // name of the recording to start; "" for none
	Duration time.Duration // after which the VM ends it by itself
	Alloc    bool          // record allocations
	Locks    bool          // record waiting for locks

	Options jfr.Options
}

// Answer is the result of a request.
type Answer struct {
	Profiles []Encoded // of the recording that has ended
	Last     uint64    // Options.After of the next request
	Bytes    int       // size of the recording
	Started  bool      // the recording has started
}

// Encoded is a profile in the format pprof.
type Encoded struct {
	Name string // see jfr.Profile
	Raw  []byte
}

// reply is an Answer or an error.
type reply struct {
	Answer  Answer
	Error   string // "" if there is none
	Refused bool   // the error is an *attach.RefusedError
}

// working are the VMs, by PID, whose process has not ended yet.
var working sync.Map

// Do executes a request in a new process. When ctx is done, Do returns, and the process finishes, so that it leaves no
// file. A VM has one process at a time. The error is an *attach.RefusedError if the VM takes no commands; the answer
// is valid as far as it goes also if there is an error.
func Do(ctx context.Context, q Request) (Answer, error) {
	if _, busy := working.LoadOrStore(q.PID, true); busy {
		return Answer{}, errors.New("the VM or its files have not answered for long")
	}
	var in, out, trouble bytes.Buffer
	if err := gob.NewEncoder(&in).Encode(q); err != nil {
		working.Delete(q.PID)
		return Answer{}, err
	}
	cmd := exec.Command("/proc/self/exe")
	cmd.Args, cmd.Dir = []string{Name}, "/"
	cmd.Env = []string{"GOMAXPROCS=1", "GOTRACEBACK=none"}
	cmd.Stdin, cmd.Stderr = &in, &limited{&trouble, 4 << 10}
	cmd.Stdout = &limited{&out, maxAnswer}
	cmd.SysProcAttr = &unix.SysProcAttr{Setsid: true} // no key of a terminal ends it
	if err := cmd.Start(); err != nil {
		working.Delete(q.PID)
		return Answer{}, fmt.Errorf("start a process for Java: %w", err)
	}
	ended := make(chan error, 1)
	go func() {
		err := cmd.Wait()
		working.Delete(q.PID)
		ended <- err
	}()
	var err error
	select {
	case err = <-ended:
	case <-ctx.Done():
		return Answer{}, fmt.Errorf("the VM or its files do not answer: %w", context.Cause(ctx))
	}
	var r reply
	if e := gob.NewDecoder(&out).Decode(&r); e != nil {
		text, _, _ := strings.Cut(strings.TrimSpace(trouble.String()), "\n")
		return Answer{}, fmt.Errorf("process for Java: %w: %s", errors.Join(err, e), text)
	}
	switch {
	case r.Refused:
		return r.Answer, &attach.RefusedError{Reason: r.Error}
	case r.Error != "":
		return r.Answer, errors.New(r.Error)
	}
	return r.Answer, nil
}

// limited takes a number of bytes and drops the rest.
type limited struct {
	to   *bytes.Buffer
	most int
}

func (l *limited) Write(b []byte) (int, error) {
	l.to.Write(b[:min(len(b), max(l.most-l.to.Len(), 0))])
	return len(b), nil
}

// init executes a request, and does not return, in a process that Do has started.
func init() {
	if len(os.Args) != 1 || os.Args[0] != Name {
		return
	}
	signal.Ignore(unix.SIGINT, unix.SIGTERM, unix.SIGHUP, unix.SIGPIPE) // it ends when its work is done
	var q Request
	if err := gob.NewDecoder(os.Stdin).Decode(&q); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	limitMemory()
	var r reply
	answer, err := execute(q)
	if r.Answer = answer; err != nil {
		var refused *attach.RefusedError
		r.Error, r.Refused = err.Error(), errors.As(err, &refused)
	}
	if err := gob.NewEncoder(os.Stdout).Encode(r); err != nil {
		os.Exit(1)
	}
	os.Exit(0)
}

// limitMemory ends this process before it takes much memory.
func limitMemory() {
	var used, resident uint64
	if b, err := os.ReadFile("/proc/self/statm"); err == nil {
		_, _ = fmt.Sscan(string(b), &used, &resident)
	}
	limit := used*uint64(os.Getpagesize()) + maxMemory
	_ = unix.Setrlimit(unix.RLIMIT_AS, &unix.Rlimit{Cur: limit, Max: limit})
	debug.SetMemoryLimit(maxMemory / 4)
}

// execute executes a request in this process.
func execute(q Request) (a Answer, err error) {
	a.Last = q.Options.After
	vm, err := attach.Open(q.PID)
	if err != nil {
		return a, err
	}
	defer vm.Close()
	dir, err := vm.OpenDir(q.Dir)
	if err != nil {
		return a, err
	}
	defer unix.Close(dir)
	var failed error // of the start; the other recording ends anyway
	if q.Start != "" {
		failed = start(vm, dir, q)
		a.Started = failed == nil
	}
	if q.Stop == "" {
		return a, failed
	}
	recording, err := stop(vm, dir, q)
	if err != nil {
		return a, errors.Join(failed, err)
	}
	a.Bytes = len(recording)
	result, err := jfr.Read(recording, q.Options)
	if err != nil {
		return a, errors.Join(failed, err)
	}
	a.Last = result.Last
	for _, p := range result.Profiles {
		p.Pprof.TimeNanos, p.Pprof.DurationNanos = q.Since.UnixNano(), time.Since(q.Since).Nanoseconds()
		raw, err := pprof.Encode(p.Pprof)
		if err != nil {
			return a, errors.Join(failed, err)
		}
		a.Profiles = append(a.Profiles, Encoded{p.Name, raw})
	}
	return a, failed
}

// start starts a recording with settings from a file, which all releases can read.
func start(vm *attach.VM, dir int, q Request) error {
	settings, err := create(vm, dir, q, ".jfc")
	if err != nil {
		return err
	}
	defer settings.remove()
	if _, err := settings.WriteString(settingsOf(q)); err != nil {
		return fmt.Errorf("writing the settings of a recording to %s: %w", q.Dir, err)
	}
	// Without the device, newer VMs write a file to their working directory when the duration ends.
	_, err = vm.Do(fmt.Sprintf("JFR.start name=%s settings=%s duration=%ds maxsize=%d filename=/dev/null", q.Start,
		settings.path, int(q.Duration.Seconds()), maxRecording))
	return err
}

// settingsOf returns the settings of a recording, as JDK Mission Control writes them.
func settingsOf(q Request) string {
	var b strings.Builder
	b.WriteString(`<?xml version="1.0" encoding="UTF-8"?><configuration version="2.0">`)
	event := func(name string, settings ...string) { // pairs of name and value
		fmt.Fprintf(&b, `<event name="jdk.%s">`, name)
		for pair := range slices.Chunk(append(settings, "enabled", "true"), 2) {
			fmt.Fprintf(&b, `<setting name="%s">%s</setting>`, pair[0], pair[1])
		}
		b.WriteString("</event>")
	}
	if q.Alloc {
		event("ObjectAllocationInNewTLAB", "stackTrace", "true")
		event("ObjectAllocationOutsideTLAB", "stackTrace", "true")
		event("ThreadAllocationStatistics", "period", "everyChunk")
	}
	if q.Locks {
		threshold := fmt.Sprintf("%d ns", q.Options.Lock.Nanoseconds())
		event("JavaMonitorEnter", "stackTrace", "true", "threshold", threshold)
		event("ThreadPark", "stackTrace", "true", "threshold", threshold)
	}
	b.WriteString("</configuration>\n")
	return b.String()
}

// stop ends a recording and returns its content.
func stop(vm *attach.VM, dir int, q Request) ([]byte, error) {
	file, err := create(vm, dir, q, ".jfr")
	if err != nil {
		return nil, err
	}
	defer file.remove()
	output, err := vm.Do(fmt.Sprintf("JFR.stop name=%s filename=%s", q.Stop, file.path))
	if err != nil {
		return nil, err
	}
	recording, err := io.ReadAll(io.NewSectionReader(file.File, 0, 2*maxRecording))
	if err != nil {
		return nil, fmt.Errorf("reading the recording of process %d: %w", q.PID, err)
	}
	if len(recording) == 0 {
		return nil, fmt.Errorf("JFR.stop: the VM answers %q", output)
	}
	return recording, nil
}

// file is a file for a VM. Root and the VM's user can read it.
type file struct {
	*os.File
	dir  int
	name string
	path string // in the VM's root directory
}

func create(vm *attach.VM, dir int, q Request, suffix string) (*file, error) {
	name := fmt.Sprintf(".headwater-%d-%d%s", os.Getpid(), time.Now().UnixNano(), suffix)
	fd, err := unix.Openat(dir, name, unix.O_CREAT|unix.O_EXCL|unix.O_RDWR|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, fmt.Errorf("creating a file in %s for process %d: %w", q.Dir, q.PID, err)
	}
	f := &file{os.NewFile(uintptr(fd), name), dir, name, strings.TrimSuffix(q.Dir, "/") + "/" + name}
	if err := unix.Fchown(fd, vm.UID(), vm.GID()); err != nil {
		f.remove()
		return nil, fmt.Errorf("giving a file in %s to process %d: %w", q.Dir, q.PID, err)
	}
	return f, nil
}

func (f *file) remove() {
	_ = unix.Unlinkat(f.dir, f.name, 0)
	f.Close()
}
