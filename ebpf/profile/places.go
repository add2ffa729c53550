package profile

import (
	"github.com/headwater/headwater/ebpf/kernel"
	"github.com/headwater/headwater/ebpf/symbol"
	"github.com/headwater/headwater/ebpf/unwind"
)

const (
	// maxNamedPlaces bounds the locations that are kept from one round to the next: some 4 MB.
	maxNamedPlaces = 12 << 10
	// placeRounds is for how many rounds one stays that is not used, if there are too many.
	placeRounds = 3
)

// namedPlaces are the locations in files of earlier rounds. What a program does now it mostly did before, too, and to
// name an address takes several times as long as to find it here. Guarded by Builder.collecting.
type namedPlaces struct {
	how   naming
	byExe map[unwind.ExeID]map[place]*namedPlace
	count int
	round uint32
}

// naming is how names are shown.
type naming struct {
	demangle        symbol.DemangleMode
	inline, hotspot bool
}

func namingOf(o *Options) naming { return naming{o.Demangle, o.InlineFrames, o.Hotspot} }

// place is an address in a file.
type place struct {
	vaddr    uint64
	returned bool
}

type namedPlace struct {
	userLocation
	used uint32 // round
}

func newNamedPlaces() *namedPlaces {
	return &namedPlaces{byExe: map[unwind.ExeID]map[place]*namedPlace{}}
}

// begin begins a round in which names are shown like this. Names of objects that were forgotten may be others now.
func (p *namedPlaces) begin(how naming, forgotten map[uint32]bool) {
	if how != p.how {
		p.how, p.count = how, 0
		clear(p.byExe)
	}
	for id := range forgotten {
		p.count -= len(p.byExe[unwind.ExeID(id)])
		delete(p.byExe, unwind.ExeID(id))
	}
	p.round++
}

// keeps reports whether locations of such frames are kept: those in files, which have an end.
func (p *namedPlaces) keeps(f kernel.Frame) bool {
	return f.Exe != 0 && f.Code == 0 && f.Flags&(kernel.Interpreted|kernel.Made) == 0
}

func placeOf(f kernel.Frame) place { return place{f.Vaddr, f.Flags&kernel.ReturnAddress != 0} }

// get returns the location of a frame, false if it is not known.
func (p *namedPlaces) get(f kernel.Frame) (userLocation, bool) {
	if !p.keeps(f) {
		return userLocation{}, false
	}
	l := p.byExe[f.Exe][placeOf(f)]
	if l == nil {
		return userLocation{}, false
	}
	l.used = p.round
	return l.userLocation, true
}

// put keeps the location of a frame.
func (p *namedPlaces) put(f kernel.Frame, l userLocation) {
	places := p.byExe[f.Exe]
	if places == nil {
		places = map[place]*namedPlace{}
		p.byExe[f.Exe] = places
	}
	places[placeOf(f)] = &namedPlace{l, p.round}
	p.count++
}

// end drops what is too much: what was not used lately, and all if that is not enough.
func (p *namedPlaces) end() {
	if p.count <= maxNamedPlaces {
		return
	}
	for exe, places := range p.byExe {
		for at, l := range places {
			if p.round-l.used >= placeRounds {
				delete(places, at)
				p.count--
			}
		}
		if len(places) == 0 {
			delete(p.byExe, exe)
		}
	}
	if p.count > 2*maxNamedPlaces {
		p.count = 0
		clear(p.byExe)
	}
}
