package procfs

import (
	"fmt"
	"hash/maphash"
	"strconv"
	"strings"
	"time"
)

// Instance identifies a process and a program in it. Another process may have the PID before or afterwards.
type Instance struct {
	Start   uint64 // start of the process, in ticks since the host started
	Program uint64 // of this process only: equal until it executes another program; 0 if unknown
	Parent  uint32 // PID; 0 if there is none here
}

// programs is the seed of the hash in Program. The hash hides addresses that address randomization keeps secret.
var programs = maphash.MakeSeed()

// Instance returns the process that has a PID now. A child has the Program of its parent until it executes another
// program. If the process is gone, the error satisfies Gone.
func (f FS) Instance(pid uint32) (Instance, error) {
	const parent, started, startCode, startStack = 4, 22, 26, 28 // proc_pid_stat(5)
	n, err := f.statNumbers(pid, parent, started, startCode, startStack)
	if err != nil {
		return Instance{}, err
	}
	i := Instance{Parent: uint32(n[0]), Start: n[1]}
	if n[3] != 0 { // otherwise we may not see addresses, or the process has ended
		i.Program = maphash.Comparable(programs, [2]uint64{n[2], n[3]}) | 1
	}
	return i, nil
}

// Instance returns the process that has a PID now.
func (c *Cgroups) Instance(pid uint32) (Instance, error) { return c.fs.Instance(pid) }

// Is reports whether two Instances are one process and, as far as known, one program.
func (i Instance) Is(other Instance) bool {
	return i.Start == other.Start && (i.Program == other.Program || i.Program == 0 || other.Program == 0)
}

// Age returns how long ago the process started, to about a hundredth of a second; 0 if the time since boot is unknown.
func (i Instance) Age() time.Duration {
	age, _ := ageOf(i.Start)
	return age
}

// String returns a text for ParseInstance: everything except the parent.
func (i Instance) String() string { return fmt.Sprintf("%d.%x", i.Start, i.Program) }

// ParseInstance returns the Instance of a text that String has returned in this process. ok is false for other texts.
func ParseInstance(text string) (i Instance, ok bool) {
	start, program, ok := strings.Cut(text, ".")
	if !ok {
		return Instance{}, false
	}
	var errStart, errProgram error
	i.Start, errStart = strconv.ParseUint(start, 10, 64)
	i.Program, errProgram = strconv.ParseUint(program, 16, 64)
	return i, errStart == nil && errProgram == nil
}
