// Package numa finds the memory node that is next to each CPU of this host.
package numa

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Sysfs is the directory in which the kernel shows nodes: a folder node0 and so on, each with a file cpulist (Linux,
// Documentation/ABI/stable/sysfs-devices-node).
const Sysfs = "/sys/devices/system/node"

// again is how often the nodes are read again because of a CPU that is in none.
const again = 10 * time.Second

// Nodes returns the nodes of CPUs. Safe for concurrent use.
type Nodes struct {
	dir string

	mu   sync.Mutex
	of   map[uint32]int32 // by CPU
	read time.Time
}

// New returns the nodes that a folder such as Sysfs shows. It does not read the folder; Of does.
func New(dir string) *Nodes { return &Nodes{dir: dir} }

// Of returns the node of a CPU, or -1 if unknown. It returns 0 on a kernel without nodes.
func (n *Nodes) Of(cpu uint32) int32 {
	n.mu.Lock()
	defer n.mu.Unlock()
	node, ok := n.of[cpu]
	if !ok && time.Since(n.read) >= again { // CPUs come and go
		n.of, n.read = readNodes(n.dir), time.Now()
		node, ok = n.of[cpu]
	}
	switch {
	case ok:
		return node
	case n.of == nil:
		return 0
	}
	return -1
}

// readNodes returns the nodes by CPU, or nil if there are none. It skips entries that it cannot read or parse.
func readNodes(dir string) map[uint32]int32 {
	lists, _ := filepath.Glob(filepath.Join(dir, "node[0-9]*", "cpulist")) // the pattern is well-formed
	if len(lists) == 0 {
		return nil
	}
	of := map[uint32]int32{}
	for _, path := range lists {
		number := strings.TrimPrefix(filepath.Base(filepath.Dir(path)), "node")
		node, err := strconv.ParseInt(number, 10, 32)
		if err != nil {
			continue
		}
		text, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		cpus, _ := ParseCPUs(strings.TrimSpace(string(text))) // a node with only memory has no CPUs
		for _, cpu := range cpus {
			of[cpu] = int32(node)
		}
	}
	return of
}

// Online returns the CPUs that are online.
func Online() ([]uint32, error) {
	text, err := os.ReadFile("/sys/devices/system/cpu/online")
	if err != nil {
		return nil, err
	}
	return ParseCPUs(strings.TrimSpace(string(text)))
}

// maxCPU bounds the numbers of CPUs: Linux has at most 8,192.
const maxCPU = 1 << 16

// ParseCPUs parses a list of CPUs as the kernel writes it, such as 0-3,5. "" is none.
func ParseCPUs(list string) (cpus []uint32, err error) {
	if list == "" {
		return nil, nil
	}
	for part := range strings.SplitSeq(list, ",") {
		first, last, isRange := strings.Cut(part, "-")
		if !isRange {
			last = first
		}
		from, err := strconv.ParseUint(first, 10, 32)
		if err != nil {
			return nil, fmt.Errorf("%q is no list of CPUs such as 0-3,5", list)
		}
		to, err := strconv.ParseUint(last, 10, 32)
		if err != nil || to < from || to >= maxCPU {
			return nil, fmt.Errorf("%q is no list of CPUs such as 0-3,5", list)
		}
		for cpu := from; cpu <= to; cpu++ {
			cpus = append(cpus, uint32(cpu))
		}
	}
	return cpus, nil
}
