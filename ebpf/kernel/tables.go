package kernel

import (
	"errors"
	"fmt"
	"sync"

	"github.com/cilium/ebpf"

	"github.com/headwater/headwater/ebpf/unwind"
	"github.com/headwater/headwater/ebpf/unwind/tablestore"
)

// store is named here so that Tables does not export it as a field.
type store = tablestore.Store

// Tables is the data that the unwinder in the kernel uses: table memory, and the mappings of processes in it. It is
// safe for concurrent use.
type Tables struct {
	*store
	*interpreters
	processes *ebpf.Map

	mu       sync.Mutex
	mappings map[uint32]tablestore.Mappings // by PID
}

// newTables returns tables of at most bytes bytes, in slabs that inner describes.
func newTables(o *profilerObjects, inner *ebpf.MapSpec, bytes int) (*Tables, error) {
	changes := uint32(1)          // as in bpf/sample/maps.h
	changed := func(short bool) { // Set has succeeded below, so errors are ignored
		changes = max(1, changes+1)
		if short {
			o.RowChanges.Set(uint32(0))
			return
		}
		o.RowChanges.Set(changes)
	}
	if err := o.RowChanges.Set(changes); err != nil {
		return nil, fmt.Errorf("have walks forget rows: %w", err)
	}
	s, err := tablestore.New(func(n int) (tablestore.Slab, error) {
		m, err := ebpf.NewMap(inner)
		if err != nil {
			return nil, err
		}
		if err := o.Slabs.Put(uint32(n), m); err != nil {
			return nil, errors.Join(err, m.Close())
		}
		return m, nil
	}, changed, bytes)
	if err != nil {
		return nil, err
	}
	return &Tables{
		store: s, interpreters: newInterpreters(o), processes: o.Processes, mappings: map[uint32]tablestore.Mappings{},
	}, nil
}

// SetProcess stores the mappings of a process, sorted by start and not overlapping, in place of its earlier ones.
// Samples that are taken after the call carry p.Generation.
func (t *Tables) SetProcess(pid uint32, p unwind.Process) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	mappings, err := t.store.AddMappings(p.Mappings)
	if err != nil {
		return fmt.Errorf("process %d: %w", pid, err)
	}
	value := profilerProcess{
		Mappings: mappings.Word(), Count: uint32(len(p.Mappings)), Generation: p.Generation,
		Interpreter: p.Interpreter, Bias: p.Bias, Exec: p.Exec, Pid: pid,
	}
	if p.Ignore {
		value.Flags |= uint16(profilerProcessFlagsPROCESS_IGNORED)
	}
	if p.MakesCode {
		value.Flags |= uint16(profilerProcessFlagsPROCESS_MAKES_CODE)
	}
	if p.Restless {
		value.Flags |= uint16(profilerProcessFlagsPROCESS_RESTLESS)
	}
	if err := t.processes.Put(pid, &value); err != nil {
		t.store.RemoveMappings(mappings)
		return fmt.Errorf("store process %d: %w", pid, err)
	}
	t.store.RemoveMappings(t.mappings[pid])
	t.mappings[pid] = mappings
	return nil
}

// DeleteProcess forgets a process.
func (t *Tables) DeleteProcess(pid uint32) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	mappings, ok := t.mappings[pid]
	if !ok {
		return nil
	}
	delete(t.mappings, pid)
	t.store.RemoveMappings(mappings)
	if err := t.processes.Delete(pid); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
		return fmt.Errorf("forget process %d: %w", pid, err)
	}
	return nil
}
