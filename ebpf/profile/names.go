package profile

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/headwater/headwater/ebpf/filework"
	"github.com/headwater/headwater/ebpf/kernel"
	"github.com/headwater/headwater/ebpf/procfs"
	"github.com/headwater/headwater/ebpf/symbol"
	"github.com/headwater/headwater/ebpf/symbol/jit"
)

const (
	// kernelRefresh is how often, at most, the kernel's symbols are read again because
	// some address had none: modules and BPF programs come and go.
	kernelRefresh = time.Minute
	// refreshPatience is how long Collect waits for debug files to be looked for again.
	refreshPatience = 500 * time.Millisecond
)

// names is where the names of frames come from.
type names struct {
	executables Executables
	symbolizer  *symbol.Symbolizer
	jit         *jit.Processes
	debuginfod  debuginfodClient
	files       *filework.Pool
	readers     *readers
	places      *namedPlaces // guarded by Builder.collecting

	refreshing atomic.Bool // debug files are looked for again
	kernelRead time.Time   // when the kernel's symbols were last read again; for Collect
}

func newNames(e Executables, files *filework.Pool) *names {
	return &names{
		executables: e,
		symbolizer:  symbol.New(symbol.Options{Files: files}),
		jit:         jit.New(procfs.Default, files, jit.DefaultBytes),
		files:       files,
		readers:     newReaders(files),
		places:      newNamedPlaces(),
	}
}

// namer returns a namer of stacks that are all to be shown in one of these ways. Locations of earlier rounds can serve
// if there is one way.
func (n *names) namer(how ...naming) *namer {
	namer := newNamer(n)
	n.places.begin(how[len(how)-1], n.symbolizer.Forgotten())
	if !slices.ContainsFunc(how, func(one naming) bool { return one != n.places.how }) {
		namer.places = n.places
	}
	return namer
}

func (n *names) close() {
	n.symbolizer.Close()
	n.debuginfod.close()
	n.jit.Close()
}

// What kallsyms has in brackets after the name of code that the kernel made while it runs.
const (
	bpfSymbolFile    = "[bpf]"
	kernelSymbolFile = "[kernel]"
)

// observe notes which programs are new, and which code the kernel made.
func (n *names) observe(r *kernel.Record) {
	switch r.Kind {
	case kernel.RecordExec:
		n.jit.Restarted(r.PID)
	case kernel.RecordKernelSymbol:
		file := kernelSymbolFile
		if r.Symbol.BPF {
			file = bpfSymbolFile
		}
		n.symbolizer.KernelSymbol(symbol.KernelSymbol{
			Name: r.Symbol.Name, File: file, Start: r.Symbol.Address, Size: r.Symbol.Size, Removed: r.Symbol.Removed,
		})
	}
}

// refreshDebugFiles looks for debug files that were missing, in the background where
// that takes long.
func (n *names) refreshDebugFiles() {
	if n.refreshing.Swap(true) {
		return
	}
	done := make(chan struct{})
	go func() {
		n.symbolizer.Refresh()
		n.refreshing.Store(false)
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(refreshPatience):
	}
}

// trim gives back what a round of naming took: memory, and the names of processes that had
// ended when it began. The kernel's symbols are read again when addresses had none.
func (n *names) trim(ended []uint32, unknownKernel bool) {
	n.places.end()
	n.symbolizer.Trim()
	n.jit.Forget(ended)
	if now := time.Now(); unknownKernel && now.Sub(n.kernelRead) >= kernelRefresh {
		n.kernelRead = now
		n.symbolizer.RefreshKernel() // its KernelStatus says why it could not
	}
}
