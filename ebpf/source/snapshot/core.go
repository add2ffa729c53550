package snapshot

import (
	"debug/elf"

	"github.com/headwater/headwater/ebpf/kernel"
	"github.com/headwater/headwater/ebpf/object/corefile"
	"github.com/headwater/headwater/ebpf/sampler"
)

// OfCore returns the stacks of all threads of a core file, the thread with the signal first, and the Threads that know
// the executables of their frames. The caller closes the Threads.
func OfCore(c *corefile.Core) ([]*Stack, *sampler.Threads) {
	completer := sampler.OpenEnded(sampler.Ended{
		Machine: c.Machine, Name: c.Name, Mappings: c.Mappings, Memory: c.Memory(),
	})
	startStack := c.StartStack()
	var out []*Stack
	for i := range c.Threads {
		from := &c.Threads[i]
		t := kernel.Thread{
			PID: sampler.EndedPID, TID: from.TID, Comm: c.Name, State: kernel.Stopped, Off: -1, Call: kernel.NoCall,
			Regs: from.Regs, ThreadPointer: from.ThreadPointer, StartStack: startStack,
		}
		m := newMemory(completer.Memory(sampler.EndedPID), &t)
		m.selfPointer = c.Machine == elf.EM_X86_64
		out = append(out, &Stack{Thread: t, Sample: completer.CompleteThread(&t, m), Tries: 1})
	}
	return out, completer
}
