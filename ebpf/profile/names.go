package profile

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/headwater/headwater/ebpf/host/filework"
	"github.com/headwater/headwater/ebpf/host/procfs"
	"github.com/headwater/headwater/ebpf/kernel"
	"github.com/headwater/headwater/ebpf/symbol"
	"github.com/headwater/headwater/ebpf/symbol/jit"
)

const (
	// kernelRefresh is the minimum interval at which the kernel's symbols are read again because an address had none:
	// modules and BPF programs come and go.
	kernelRefresh = time.Minute
	// refreshPatience is the maximum time that Collect waits for a new search for debug files.
	refreshPatience = 500 * time.Millisecond
)

// names holds the sources of the names of frames.
type names struct {
	executables Executables
	symbolizer  *symbol.Symbolizer
	jit         *jit.Processes
	debuginfod  debuginfodClient
	files       *filework.Pool
	readers     *readers
	places      *namedPlaces // guarded by Builder.collecting

	refreshing atomic.Bool // a search for missing debug files is running
	kernelRead time.Time   // when the kernel's symbols were last read again; for Collect
}

func newNames(e Executables, files *filework.Pool) *names {
	return &names{
		executables: e,
		symbolizer:  symbol.New(symbol.Options{DebugFiles: e.DebugFiles()}),
		jit:         jit.New(procfs.Default, files, jit.DefaultBytes),
		files:       files,
		readers:     newReaders(files),
		places:      newNamedPlaces(),
	}
}

// namer returns a namer for the given namings. It uses the locations of earlier rounds only if all namings are the
// same.
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

// Suffixes in kallsyms of symbols of code that the kernel generated at run time.
const (
	bpfSymbolFile    = "[bpf]"
	kernelSymbolFile = "[kernel]"
)

// observe handles records of new programs, and of code that the kernel generated.
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

// refreshDebugFiles searches again for missing debug files, and continues in the background if this takes long.
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

// trimEnded frees the memory of a round of naming, and the names of processes that had ended when it started. It reads
// the kernel's symbols again if addresses had none.
func (n *names) trimEnded(ended []uint32, unknownKernel bool) {
	n.places.endRound()
	n.symbolizer.Trim()
	n.jit.Forget(ended)
	if now := time.Now(); unknownKernel && now.Sub(n.kernelRead) >= kernelRefresh {
		n.kernelRead = now
		n.symbolizer.RefreshKernel() // KernelStatus reports errors
	}
}
