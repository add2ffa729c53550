package probe

import (
	"maps"

	"github.com/headwater/headwater/ebpf/process/target"
)

// maxServices limits the services with losses of their own.
const maxServices = 256

// restOfServices counts the losses of further services.
const restOfServices = "other services"

// losses finds out which targets lost samples. The kernel's buffers only say how many records they had no room for. BPF
// counts the hits of each process, and the hits that were not read are lost.
type losses struct {
	processes map[uint32]*hitsOfProcess
	lost      map[string]uint64 // by service
	sum       uint64            // of lost
}

// hitsOfProcess are the hits of one process since the buffers were opened.
type hitsOfProcess struct {
	target *target.Target
	read   uint64
	lost   uint64 // part of losses.lost
}

// processOf returns the hits of a process, which may be new.
func (l *losses) processOf(pid uint32) *hitsOfProcess {
	p := l.processes[pid]
	if p == nil {
		p = &hitsOfProcess{}
		if l.processes == nil {
			l.processes = map[uint32]*hitsOfProcess{}
		}
		l.processes[pid] = p
	}
	return p
}

// addRead counts a hit that was read.
func (l *losses) addRead(pid uint32, of *target.Target) {
	p := l.processOf(pid)
	p.read++
	p.target = of
}

// compare takes the hits that BPF has counted, by process, before the last ones were read. all is the number of lost
// samples of all processes, which the losses of targets never exceed.
func (l *losses) compare(hits map[uint32]uint64, all uint64, find func(pid uint32) (*target.Target, bool)) {
	for pid, n := range hits {
		if all <= l.sum { // every loss has its target
			break
		}
		if l.processes[pid] == nil { // not even one of its hits had room
			of, wanted := find(pid)
			if !wanted {
				continue
			}
			l.processOf(pid).target = of
		}
		p := l.processes[pid]
		if n <= p.read+p.lost {
			continue
		}
		more := min(n-p.read-p.lost, all-l.sum)
		p.lost += more
		l.sum += more
		l.addLost(p.target, more)
	}
	maps.DeleteFunc(l.processes, func(pid uint32, _ *hitsOfProcess) bool { return hits[pid] == 0 })
}

func (l *losses) addLost(of *target.Target, n uint64) {
	service := ""
	if of != nil { // recordings have no target
		service = of.ServiceName()
	}
	if _, known := l.lost[service]; !known && len(l.lost) >= maxServices {
		service = restOfServices
	}
	if l.lost == nil {
		l.lost = map[string]uint64{}
	}
	l.lost[service] += n
}

// clear forgets the processes: further counts start at 0.
func (l *losses) clear() { l.processes = nil }

// byService returns the losses, nil if there are none. The caller owns the result.
func (l *losses) byService() map[string]uint64 { return maps.Clone(l.lost) }
