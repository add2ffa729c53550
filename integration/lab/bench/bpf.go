package main

import (
	"fmt"
	"os"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Values of linux/bpf.h.
const (
	mapLookup         = 1  // BPF_MAP_LOOKUP_ELEM
	mapNextKey        = 4  // BPF_MAP_GET_NEXT_KEY
	mapByID           = 14 // BPF_MAP_GET_FD_BY_ID
	enableStats       = 32 // BPF_ENABLE_STATS
	perfEventProgram  = 7  // BPF_PROG_TYPE_PERF_EVENT
	typeArrayOfMaps   = 12 // BPF_MAP_TYPE_ARRAY_OF_MAPS
	typeHashOfMaps    = 13 // BPF_MAP_TYPE_HASH_OF_MAPS
	statsOfRunTime    = 0  // BPF_STATS_RUN_TIME
	largestKeyOfAMaps = 64 // bytes, more than the outer maps of all contenders need
)

// callBPF makes the system call of the same name.
func callBPF(command int, attribute unsafe.Pointer, size uintptr) (int, error) {
	r, _, errno := unix.Syscall(unix.SYS_BPF, uintptr(command), uintptr(attribute), size)
	if errno != 0 {
		return -1, errno
	}
	return int(r), nil
}

// countRunTime makes the kernel count the runs of BPF programs and their time until stop is called. Unlike
// kernel.bpf_stats_enabled, it does not interfere with other users, and a crash does not leave it enabled.
func countRunTime() (stop func(), err error) {
	attribute := struct{ kind uint32 }{statsOfRunTime}
	fd, err := callBPF(enableStats, unsafe.Pointer(&attribute), unsafe.Sizeof(attribute))
	if err != nil {
		return nil, fmt.Errorf("count run time of BPF programs: %w", err)
	}
	return func() { unix.Close(fd) }, nil
}

// runs are the runs so far of a profiler's entry program.
type runs struct{ count, nanoseconds uint64 }

func (r runs) minus(before runs) runs {
	return runs{r.count - before.count, r.nanoseconds - before.nanoseconds}
}

// mean returns nanoseconds per run.
func (r runs) mean() float64 { return float64(r.nanoseconds) / float64(r.count) }

// bpfPrograms returns the distinct BPF programs of a process.
func bpfPrograms(pid int) ([]descriptor, error) {
	all, err := descriptors(pid, "bpf-prog")
	seen := map[uint64]bool{}
	return slices.DeleteFunc(all, func(p descriptor) bool {
		again := seen[p.info["prog_id"]]
		seen[p.info["prog_id"]] = true
		return again
	}), err
}

// sampleRuns returns the runs of the perf event programs of a process. Tail calls count in the time of the calling
// program, and not as runs.
func sampleRuns(pid int) (sum runs, err error) {
	all, err := bpfPrograms(pid)
	for _, p := range all {
		if p.info["prog_type"] == perfEventProgram {
			sum.count += p.info["run_cnt"]
			sum.nanoseconds += p.info["run_time_ns"]
		}
	}
	return sum, err
}

// mapMemory returns the bytes of kernel memory of a process's BPF maps, including maps that are only referenced by
// other maps.
func mapMemory(pid int) (uint64, error) {
	maps, err := descriptors(pid, "bpf-map")
	if err != nil {
		return 0, err
	}
	process, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return 0, fmt.Errorf("open process %d: %w", pid, err)
	}
	defer unix.Close(process)
	var sum uint64
	seen := map[uint64]bool{}
	for _, m := range maps {
		id := m.info["map_id"]
		if seen[id] {
			continue
		}
		seen[id] = true
		sum += m.info["memlock"]
		if kind := m.info["map_type"]; kind != typeArrayOfMaps && kind != typeHashOfMaps {
			continue
		}
		inner, err := innerMaps(process, m)
		if err != nil {
			return 0, fmt.Errorf("maps in map %d: %w", id, err)
		}
		for innerID, bytes := range inner {
			if !seen[innerID] {
				seen[innerID] = true
				sum += bytes
			}
		}
	}
	return sum, nil
}

// innerMaps returns the memory of the maps in a map of maps, by identifier.
func innerMaps(process int, outer descriptor) (map[uint64]uint64, error) {
	fd, err := unix.PidfdGetfd(process, outer.fd, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	if outer.info["key_size"] > largestKeyOfAMaps {
		return nil, fmt.Errorf("keys of %d bytes", outer.info["key_size"])
	}
	found := map[uint64]uint64{}
	var key, next [largestKeyOfAMaps]byte
	for previous := unsafe.Pointer(nil); ; previous = unsafe.Pointer(&key) {
		if !nextKey(fd, previous, unsafe.Pointer(&next)) {
			return found, nil
		}
		key = next
		if id, ok := innerMapID(fd, unsafe.Pointer(&key)); ok {
			if bytes, ok := memlockOf(id); ok {
				found[uint64(id)] = bytes
			}
		}
	}
}

// element is the part of union bpf_attr for a map's elements, on machines with 64-bit pointers.
type element struct {
	fd    uint32
	_     uint32
	key   unsafe.Pointer
	value unsafe.Pointer // or the next key
	flags uint64
}

func nextKey(fd int, key, next unsafe.Pointer) bool {
	attribute := element{fd: uint32(fd), key: key, value: next}
	_, err := callBPF(mapNextKey, unsafe.Pointer(&attribute), unsafe.Sizeof(attribute))
	return err == nil
}

// innerMapID looks up an element of a map of maps: user space gets an identifier.
func innerMapID(fd int, key unsafe.Pointer) (id uint32, ok bool) {
	attribute := element{fd: uint32(fd), key: key, value: unsafe.Pointer(&id)}
	_, err := callBPF(mapLookup, unsafe.Pointer(&attribute), unsafe.Sizeof(attribute))
	return id, err == nil
}

// memlockOf returns the memory of a map, unless it is gone.
func memlockOf(id uint32) (bytes uint64, ok bool) {
	attribute := struct{ id, next, flags uint32 }{id: id}
	fd, err := callBPF(mapByID, unsafe.Pointer(&attribute), unsafe.Sizeof(attribute))
	if err != nil {
		return 0, false
	}
	defer unix.Close(fd)
	text, err := os.ReadFile(fmt.Sprintf("/proc/self/fdinfo/%d", fd))
	return parseFields(string(text))["memlock"], err == nil
}
