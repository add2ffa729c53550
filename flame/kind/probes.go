package kind

import (
	"fmt"
	"reflect"
	"slices"
	"sync"
)

// maxProbes is the maximum number of kinds of probes of a process. They are never dropped, as profiles may still have
// them.
const maxProbes = 4096

// interned holds the kinds of probes. As with package unique, equal Infos share one kind.
type interned struct {
	mu    sync.RWMutex
	infos []Info // index is Kind minus Count
}

var probes interned

// OfProbe returns the kind for a probe's samples: the kind with an equal Info, or a new one. It is safe for concurrent
// use.
func OfProbe(i Info) (Kind, error) {
	probes.mu.Lock()
	defer probes.mu.Unlock()
	for n, known := range probes.infos {
		if reflect.DeepEqual(known, i) {
			return Count + Kind(n), nil
		}
	}
	if len(probes.infos) >= maxProbes {
		return 0, fmt.Errorf("this process has used all of its %d kinds of probes: restart it", maxProbes)
	}
	i.Values = slices.Clone(i.Values)
	probes.infos = append(probes.infos, i)
	return Count + Kind(len(probes.infos)-1), nil
}

func (p *interned) infoOf(k Kind) (Info, bool) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	if k < Count || int(k-Count) >= len(p.infos) {
		return Info{}, false
	}
	return p.infos[k-Count], true
}

func (p *interned) byName(name string) (Kind, bool) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	n := slices.IndexFunc(p.infos, func(i Info) bool { return i.Name == name })
	return Count + Kind(max(n, 0)), n >= 0
}
