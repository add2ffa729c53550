package attach

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// maxCounters bounds the file of a VM's counters, in bytes. It has 32 KiB unless an option says otherwise.
const maxCounters = 1 << 20

// takesCommands reports whether the VM's counters say that its attach mechanism is on, and false for known if it has no
// file of counters (-XX:-UsePerfData). The file is hsperfdata_USER/PID in /tmp.
func (vm *VM) takesCommands() (on, known bool) {
	dir, err := os.Open(fmt.Sprintf("/proc/self/fd/%d", vm.tmp))
	if err != nil {
		return false, false
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return false, false
	}
	for _, name := range names {
		if !strings.HasPrefix(name, "hsperfdata_") {
			continue
		}
		if counters, ok := vm.readCounters(int(dir.Fd()), fmt.Sprintf("%s/%d", name, vm.inner)); ok {
			if on, known = attachIsOn(counters); known {
				return on, true
			}
		}
	}
	return false, false
}

// readCounters reads a file below a directory if it is a file of the VM's user.
func (vm *VM) readCounters(dir int, name string) (content []byte, ok bool) {
	fd, err := unix.Openat2(dir, name, &unix.OpenHow{Flags: unix.O_RDONLY | unix.O_NONBLOCK | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS})
	if err != nil {
		return nil, false
	}
	f := os.NewFile(uintptr(fd), name)
	defer f.Close()
	var stat unix.Stat_t
	if unix.Fstat(fd, &stat) != nil || int(stat.Uid) != vm.uid || stat.Mode&unix.S_IFMT != unix.S_IFREG {
		return nil, false
	}
	content = make([]byte, maxCounters)
	n, err := f.ReadAt(content, 0)
	return content[:n], n > 0 && (err != nil || n == maxCounters) // the file ends, or is large
}

// attachIsOn returns the first capability in the counter sun.rt.jvmCapabilities (JDK, StatSampler), and false
// for known if counters do not have it.
func attachIsOn(counters []byte) (on, known bool) {
	// An entry has a header of 20 bytes, with the offset of its data in the last 4, and its name (JDK, PerfDataEntry).
	const header, offset = 20, 16
	at := bytes.Index(counters, []byte("sun.rt.jvmCapabilities\x00")) - header
	if at < 0 {
		return false, false
	}
	data := uint64(at) + uint64(binary.NativeEndian.Uint32(counters[at+offset:]))
	if data >= uint64(len(counters)) || counters[data] != '0' && counters[data] != '1' {
		return false, false
	}
	return counters[data] == '1', true
}
