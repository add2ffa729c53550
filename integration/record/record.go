// Package record saves what was measured together with what is needed to judge
// it and to repeat it: the command, the commit, the machine, and how busy the
// machine was with other work.
//
// A command that measures calls [Start] first and [Recorder.Save] last. A test
// calls [Test]. The files lie in docs/results, and the tables of the documents
// are made of them by integration/figures.
package record

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

// Record is one file of docs/results.
type Record struct {
	Date    time.Time `json:"date"`    // when measuring began, UTC
	Command string    `json:"command"` // what repeats it, in the root of the repository
	Commit  string    `json:"commit"`
	Dirty   bool      `json:"dirty"` // the tree had changes that are not in the commit
	Go      string    `json:"go"`    // version of the toolchain
	Machine Machine   `json:"machine"`

	// Busy is set if anything else used the CPUs before or after: figures of time
	// are then provisional.
	Busy    bool    `json:"busy"`
	Before  Load    `json:"before"`
	After   Load    `json:"after"`
	Seconds float64 `json:"seconds"`       // that measuring took
	Steal   float64 `json:"steal_percent"` // CPU time that the hypervisor gave to others meanwhile

	Values json.RawMessage `json:"values"` // as the command defines them
}

// Recorder is a record in the making.
type Recorder struct {
	record Record
	ticks  ticks
}

// Start notes the circumstances of a measurement that is about to begin. It takes
// as long as it needs to see what else runs, two seconds. The command is what a
// reader types; a path of this machine does not belong in it.
func Start(command string) (*Recorder, error) {
	r := &Recorder{record: Record{Date: time.Now().UTC().Truncate(time.Second), Command: command, Go: runtime.Version()}}
	var err error
	if r.record.Commit, r.record.Dirty, err = tree(); err != nil {
		return nil, err
	}
	if r.record.Machine, err = thisMachine(); err != nil {
		return nil, err
	}
	if r.record.Before, err = readLoad(); err != nil {
		return nil, err
	}
	r.record.Busy = r.record.Before.busy()
	r.ticks, err = readTicks()
	return r, err
}

// ErrBusy is the answer of [Recorder.Quiet] on a machine that does other work.
var ErrBusy = errors.New("other processes use the CPUs")

// Quiet returns an error that wraps [ErrBusy] if other work used more than a tenth
// of the CPU time before the start.
func (r *Recorder) Quiet() error {
	if r.record.Busy {
		return fmt.Errorf("%w: %.0f %% of their time, load average %.2f; "+
			"wait, or measure all the same and have the record say so",
			ErrBusy, r.record.Before.CPU, r.record.Before.Average[0])
	}
	return nil
}

// Save adds what was measured, how the machine was meanwhile and afterwards, and
// writes the record to a file. It may be called again and again with more values. Paths
// in the user's home directory begin with ~ there.
func (r *Recorder) Save(path string, values any) error {
	text, err := json.Marshal(values)
	if err != nil {
		return fmt.Errorf("record %s: %w", path, err)
	}
	if home, err := os.UserHomeDir(); err == nil && len(home) > 1 {
		text = bytes.ReplaceAll(text, []byte(home+"/"), []byte("~/"))
	}
	now, err := readTicks()
	if err != nil {
		return err
	}
	record := r.record
	record.Values = text
	record.Seconds = time.Since(record.Date).Round(time.Second).Seconds()
	record.Steal = r.ticks.stealUntil(now)
	if record.After, err = readLoad(); err != nil {
		return err
	}
	record.Busy = record.Busy || record.After.busy()
	return write(path, record)
}

func write(path string, r Record) error {
	text, err := json.MarshalIndent(r, "", "\t")
	if err != nil {
		return fmt.Errorf("record %s: %w", path, err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, append(text, '\n'), 0o644)
}

// Read reads a record and, unless values is nil, decodes its values into it.
func Read(path string, values any) (*Record, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var r Record
	if err := json.Unmarshal(text, &r); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if err := r.complete(); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if values == nil {
		return &r, nil
	}
	if err := json.Unmarshal(r.Values, values); err != nil {
		return nil, fmt.Errorf("%s: values: %w", path, err)
	}
	return &r, nil
}

// complete returns an error that names the fields that a record lacks.
func (r *Record) complete() error {
	var missing []string
	for name, there := range map[string]bool{
		"date": !r.Date.IsZero(), "command": r.Command != "", "commit": r.Commit != "", "go": r.Go != "",
		"machine.cpu": r.Machine.CPU != "", "machine.cpus": r.Machine.CPUs > 0, "machine.kernel": r.Machine.Kernel != "",
		"values": len(r.Values) > 0 && string(r.Values) != "null",
	} {
		if !there {
			missing = append(missing, name)
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("a record without %s", strings.Join(missing, ", "))
	}
	return nil
}

// Directory is where the environment asks tests to save their records, if it does.
const Directory = "RECORD"

// T is the part of testing.TB that is needed here.
type T interface {
	Helper()
	Fatalf(format string, arguments ...any)
	Failed() bool
}

// Test starts the record of a test's result and returns the function that saves it
// as NAME.json in the directory that the environment variable RECORD names. Without
// the variable nothing is done. A test that has failed is not saved.
func Test(t T, name, command string) (save func(values any)) {
	t.Helper()
	dir := os.Getenv(Directory)
	if dir == "" {
		return func(any) {}
	}
	if !filepath.IsAbs(dir) {
		t.Fatalf("%s=%s: name it from the root of the file system, for tests run in the folders of their packages",
			Directory, dir)
	}
	recorder, err := Start(command)
	if err != nil {
		t.Fatalf("record: %v", err)
	}
	return func(values any) {
		t.Helper()
		if t.Failed() {
			return
		}
		if err := recorder.Save(filepath.Join(dir, name+".json"), values); err != nil {
			t.Fatalf("record: %v", err)
		}
	}
}
