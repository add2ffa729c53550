package stacks

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/headwater/headwater/ebpf/object/corefile"
	"github.com/headwater/headwater/ebpf/source/snapshot"
	"github.com/headwater/headwater/flame/printable"
)

// Core describes a core file.
type Core struct {
	File   string   `json:"file"`
	Signal string   `json:"signal,omitempty"` // the signal that ended the process, "" if there was none
	Notes  []string `json:"notes,omitempty"`  // on missing or unreliable information
}

// OfCore reports the stacks of all threads in a core file. exe is the path of its program; "" means the path that the
// core file names.
func OfCore(file, exe string, inline bool) (report *Report, err error) {
	if exe != "" {
		if exe, err = filepath.Abs(exe); err != nil {
			return nil, err
		}
	}
	core, err := corefile.Open(file, corefile.Options{Executable: exe})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, core.Close()) }()
	taken, from := snapshot.OfCore(core)
	defer func() { err = errors.Join(err, from.Close()) }()
	report = &Report{PID: core.PID, Command: core.Command, Core: &Core{File: file, Notes: core.Notes}}
	if core.Signal != nil {
		report.Core.Signal = describeSignal(core.Signal)
	}
	if err := report.nameStacks(taken, from, inline); err != nil {
		return nil, err
	}
	for i := range report.Threads {
		if t := &report.Threads[i]; core.Threads[i].Pending {
			t.Signal = report.Core.Signal
		}
		report.Threads[i].locate(core)
	}
	return report, nil
}

// locate sets the file of frames whose file is missing on this host, or differs.
func (t *Thread) locate(core *corefile.Core) {
	for i, f := range t.Frames {
		var addr uint64
		if f.Function != "" || f.Kind != JIT || f.Module != "" {
			continue
		}
		if _, err := fmt.Sscanf(f.Address, "0x%x", &addr); err != nil {
			continue
		}
		t.Frames[i].Module = core.PathAt(addr)
	}
}

// describeSignal describes the signal that ended a process: "SIGSEGV, no memory at 0x0".
func describeSignal(s *corefile.Signal) string {
	name := unix.SignalName(unix.Signal(s.Number))
	if name == "" {
		name = fmt.Sprintf("signal %d", s.Number)
	}
	if reason := signalCodes[signalCode{s.Number, s.Code}]; reason != "" {
		name += ", " + reason
	}
	if s.Located {
		name += fmt.Sprintf(" at 0x%x", s.Address)
	}
	return name
}

type signalCode struct {
	number int
	code   int32
}

// signalCodes describe why the kernel sends a signal, see sigaction(2).
var signalCodes = map[signalCode]string{
	{int(unix.SIGSEGV), 1}: "no memory", {int(unix.SIGSEGV), 2}: "access not allowed",
	{int(unix.SIGSEGV), 3}: "bound exceeded", {int(unix.SIGSEGV), 4}: "protection key",
	{int(unix.SIGBUS), 1}: "unaligned access", {int(unix.SIGBUS), 2}: "no such physical address",
	{int(unix.SIGBUS), 3}: "hardware error", {int(unix.SIGBUS), 4}: "hardware memory error",
	{int(unix.SIGFPE), 1}: "integer division by zero", {int(unix.SIGFPE), 2}: "integer overflow",
	{int(unix.SIGFPE), 3}: "division by zero", {int(unix.SIGILL), 1}: "illegal instruction",
	{int(unix.SIGILL), 2}: "illegal operand", {int(unix.SIGTRAP), 1}: "breakpoint",
}

// write writes the lines about the core file that precede its threads.
func (c *Core) write(b *strings.Builder) {
	if c.Signal != "" {
		fmt.Fprintf(b, "Ended by %s\n", c.Signal)
	}
	for _, note := range c.Notes {
		fmt.Fprintf(b, "Note: %s\n", printable.Text(note))
	}
}
