// Package record saves measurements together with the information that is needed to judge and repeat them: the command,
// the commit, the machine, and the machine's load from other processes.
//
// A command that measures calls [Start] first and [Recorder.Save] last. A test calls [Test]. The files are in
// integration/lab/results, and integration/lab/figures generates the tables of the documents from them.
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

// Record is one file of integration/lab/results.
type Record struct {
	Date    time.Time `json:"date"`    // start of the measurement, UTC
	Command string    `json:"command"` // command that repeats it, run in the root of the repository
	Commit  string    `json:"commit"`
	Dirty   bool      `json:"dirty"` // the tree had uncommitted changes
	Go      string    `json:"go"`    // version of the toolchain
	Machine Machine   `json:"machine"`

	// Busy is set if other processes used the CPUs before or after the measurement: its times are then provisional.
	Busy    bool    `json:"busy"`
	Before  Load    `json:"before"`
	After   Load    `json:"after"`
	Seconds float64 `json:"seconds"`       // duration of the measurement
	Steal   float64 `json:"steal_percent"` // CPU time that the hypervisor gave to other machines

	Values json.RawMessage `json:"values"` // defined by the command
}

// Recorder is a record in preparation.
type Recorder struct {
	record Record
	ticks  ticks
}

// Start records the circumstances of a measurement that is about to start. It takes two seconds to observe other
// processes. command is the command that a reader types; it must not contain a path of this machine.
func Start(command string) (*Recorder, error) {
	r := &Recorder{record: Record{Date: time.Now().UTC().Truncate(time.Second), Command: command, Go: runtime.Version()}}
	var err error
	if r.record.Commit, r.record.Dirty, err = treeState(); err != nil {
		return nil, err
	}
	if r.record.Machine, err = thisMachine(); err != nil {
		return nil, err
	}
	if r.record.Before, err = readLoad(); err != nil {
		return nil, err
	}
	r.record.Busy = r.record.Before.isBusy()
	r.ticks, err = readTicks()
	return r, err
}

// ErrBusy is the error of [Recorder.Quiet] on a machine that is busy with other processes.
var ErrBusy = errors.New("other processes use the CPUs")

// Quiet returns an error that wraps [ErrBusy] if other processes used more than a tenth of the CPU time before the
// start.
func (r *Recorder) Quiet() error {
	if r.record.Busy {
		return fmt.Errorf("%w: %.0f %% of their time, load average %.2f; "+
			"wait, or measure all the same and have the record say so",
			ErrBusy, r.record.Before.CPU, r.record.Before.Average[0])
	}
	return nil
}

// Save adds the values, and the state of the machine during and after the measurement, and writes the record to a file.
// It may be called repeatedly, with more values. In the file, paths in the user's home directory start with ~.
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
	record.Busy = record.Busy || record.After.isBusy()
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

// Directory is the environment variable with the directory in which tests save their records, if it is set.
const Directory = "RECORD"

// T is the required part of testing.TB.
type T interface {
	Helper()
	Fatalf(format string, arguments ...any)
	Failed() bool
}

// Test starts the record of a test's result and returns the function that saves it as NAME.json in the directory named
// by the environment variable RECORD. Without the variable the function has no effect. It does not save a failed test.
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
