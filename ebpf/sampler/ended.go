package sampler

import (
	"debug/elf"
	"io"
	"time"

	"github.com/headwater/headwater/ebpf/common/clock"
	"github.com/headwater/headwater/ebpf/host/filework"
	"github.com/headwater/headwater/ebpf/host/procfs"
	"github.com/headwater/headwater/ebpf/language/all"
	"github.com/headwater/headwater/ebpf/process"
)

// Ended is the preserved part of a process that has ended.
type Ended struct {
	Machine  elf.Machine
	Name     string           // of the process
	Mappings []procfs.Mapping // executable ones
	Memory   io.ReaderAt      // by address
}

// EndedPID is the PID that threads of an Ended have here. No process of this host has it, so data of host processes,
// such as files with names of generated code, is not used for an Ended.
const EndedPID = 1 << 30

const (
	// endedOpenPatience is how long to wait for mapped files: they are opened once.
	endedOpenPatience = 10 * time.Second
	// endedReadPatience is how long one read of a language's frames may take.
	endedReadPatience = 5 * time.Second
	// endedRuntimePatience is how long to wait for all language runtimes.
	endedRuntimePatience = 5 * time.Second
)

// OpenEnded prepares to complete stacks of a process that has ended. It needs no kernel. Close the Threads after use.
func OpenEnded(e Ended) *Threads {
	t := process.NewTracker(process.NewLocalStore(), procfs.Ended(e.Memory), &filework.Pool{}, all.All())
	t.SetMachine(e.Machine)
	t.SetReadPatience(endedReadPatience)
	t.SetOpenPatience(endedOpenPatience)
	begun := clock.Monotonic()
	t.Update(func(b *process.Batch) {
		b.Exec(begun, EndedPID, e.Name)
		for _, files := range []bool{true, false} { // a runtime before the code that it generated
			for _, m := range e.Mappings {
				if m.HasFile() == files {
					b.Map(begun, EndedPID, m)
				}
			}
		}
	})
	t.AwaitRuntimes(EndedPID, endedRuntimePatience)
	// From now on, no data is read from /proc.
	t.Update(func(b *process.Batch) { b.Exit(clock.Monotonic(), EndedPID) })
	return newThreads(t)
}

// Close closes the files of a process that OpenEnded has opened.
func (t *Threads) Close() error {
	t.tracker.Close()
	return nil
}
