package profile

import (
	"maps"

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
	how    naming
	places map[place]*namedPlace
	recent [recentPlaces]recentPlace // some of places, in this round
	round  uint32
}

// recentPlaces is how many places are found without a look into the map: the outer frames of a program are in most of
// its stacks, and are asked for again and again.
const recentPlaces = 1 << 9

type recentPlace struct {
	at place
	of *namedPlace // nil: there is none
}

// slot is where a place is, if it is recent.
func (p *namedPlaces) slot(at place) *recentPlace {
	return &p.recent[(at.vaddr*0x9e3779b97f4a7c15>>32^at.in)%recentPlaces]
}

// naming is how names are shown.
type naming struct {
	demangle        symbol.DemangleMode
	inline, hotspot bool
}

func namingOf(o *Options) naming { return naming{o.Demangle, o.InlineFrames, o.Hotspot} }

// place is an address in a file. It has no gaps, so that a map looks it up in one step.
type place struct {
	vaddr uint64
	in    uint64 // the file, and whether it is a return address, see placeOf
}

type namedPlace struct {
	userLocation
	used uint32 // round
}

func newNamedPlaces() *namedPlaces { return &namedPlaces{places: map[place]*namedPlace{}} }

// begin begins a round in which names are shown like this. Names of objects that were forgotten may be others now.
func (p *namedPlaces) begin(how naming, forgotten map[uint32]bool) {
	p.recent = [recentPlaces]recentPlace{}
	if how != p.how {
		p.how = how
		clear(p.places)
	}
	if len(forgotten) > 0 {
		maps.DeleteFunc(p.places, func(at place, _ *namedPlace) bool { return forgotten[uint32(at.exe())] })
	}
	p.round++
}

// keeps reports whether locations of such frames are kept: those in files, which have an end.
func (p *namedPlaces) keeps(f kernel.Frame) bool {
	return f.Exe != 0 && f.Code == 0 && f.Flags&(kernel.Interpreted|kernel.Made) == 0
}

func placeOf(f kernel.Frame) place {
	in := uint64(f.Exe) << 1
	if f.Flags&kernel.ReturnAddress != 0 {
		in |= 1
	}
	return place{f.Vaddr, in}
}

func (p place) exe() unwind.ExeID { return unwind.ExeID(p.in >> 1) }

// get returns the location of a frame, false if it is not known.
func (p *namedPlaces) get(f kernel.Frame) (userLocation, bool) {
	if !p.keeps(f) {
		return userLocation{}, false
	}
	at := placeOf(f)
	recent := p.slot(at)
	if recent.of == nil || recent.at != at {
		l := p.places[at]
		if l == nil {
			return userLocation{}, false
		}
		l.used = p.round
		*recent = recentPlace{at, l}
	}
	return recent.of.userLocation, true
}

// put keeps the location of a frame.
func (p *namedPlaces) put(f kernel.Frame, l userLocation) {
	p.places[placeOf(f)] = &namedPlace{l, p.round}
}

// end drops what is too much: what was not used lately, and all if that is not enough.
func (p *namedPlaces) end() {
	if len(p.places) <= maxNamedPlaces {
		return
	}
	maps.DeleteFunc(p.places, func(_ place, l *namedPlace) bool { return p.round-l.used >= placeRounds })
	if len(p.places) > 2*maxNamedPlaces {
		p.places = map[place]*namedPlace{} // clear would keep the memory
	}
}
