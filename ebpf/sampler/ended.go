package sampler

import (
	"debug/elf"
	"io"
	"time"

	"github.com/headwater/headwater/ebpf/clock"
	"github.com/headwater/headwater/ebpf/filework"
	"github.com/headwater/headwater/ebpf/process"
	"github.com/headwater/headwater/ebpf/procfs"
	"github.com/headwater/headwater/ebpf/runtime/languages"
)

// Ended is a process that has ended, as far as it was kept.
type Ended struct {
	Machine  elf.Machine
	Name     string           // of the process
	Mappings []procfs.Mapping // that are executable
	Memory   io.ReaderAt      // by address
}

// EndedPID is the PID that threads of an Ended have here. No process of this host has it: what is known of those, such
// as files with names of code that they made, is not believed of others.
const EndedPID = 1 << 30

const (
	// endedOpenPatience is how long files are waited for that were mapped: they are opened once.
	endedOpenPatience = 10 * time.Second
	// endedReadPatience is how long one reading of frames of a language may take.
	endedReadPatience = 5 * time.Second
	// endedRuntimePatience is how long all language runtimes are waited for.
	endedRuntimePatience = 5 * time.Second
)

// OpenEnded prepares to complete stacks of a process that has ended. It needs no kernel. Close it after use.
func OpenEnded(e Ended) *Threads {
	t := process.NewTracker(process.NewLocalStore(), procfs.Ended(e.Memory), &filework.Pool{}, languages.All())
	t.SetMachine(e.Machine)
	t.SetReadPatience(endedReadPatience)
	t.SetOpenPatience(endedOpenPatience)
	begun := clock.Monotonic()
	t.Update(func(b *process.Batch) {
		b.Exec(begun, EndedPID, e.Name)
		for _, files := range []bool{true, false} { // a runtime before the code that it made
			for _, m := range e.Mappings {
				if m.HasFile() == files {
					b.Map(begun, EndedPID, m)
				}
			}
		}
	})
	t.AwaitRuntimes(EndedPID, endedRuntimePatience)
	// Nothing is looked up in /proc from now on.
	t.Update(func(b *process.Batch) { b.Exit(clock.Monotonic(), EndedPID) })
	return newThreads(t)
}

// Close closes the files of a process that was opened by OpenEnded.
func (t *Threads) Close() error {
	t.tracker.Close()
	return nil
}
