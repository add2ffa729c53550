package kind

import (
	"fmt"
	"reflect"
	"slices"
	"sync"
)

// maxProbes bounds the kinds of probes of one process: they are never forgotten, for profiles may still be of them.
const maxProbes = 4096

// interned are the kinds of probes. Like the values of package unique, equal ones are one.
type interned struct {
	mu    sync.RWMutex
	infos []Info // by Kind less Count
}

var probes interned

// OfProbe returns the kind that a probe's samples are of: that with the same Info, or a new one. It is safe for
// concurrent use.
func OfProbe(i Info) (Kind, error) {
	probes.mu.Lock()
	defer probes.mu.Unlock()
	for n, known := range probes.infos {
		if reflect.DeepEqual(known, i) {
			return Count + Kind(n), nil
		}
	}
	if len(probes.infos) >= maxProbes {
		return 0, fmt.Errorf("this process has had %d kinds of probes, and can have no other: start it again", maxProbes)
	}
	i.Values = slices.Clone(i.Values)
	probes.infos = append(probes.infos, i)
	return Count + Kind(len(probes.infos)-1), nil
}

func (p *interned) info(k Kind) (Info, bool) {
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
