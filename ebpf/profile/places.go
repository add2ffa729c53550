package profile

import (
	"maps"

	"github.com/headwater/headwater/ebpf/kernel"
	"github.com/headwater/headwater/ebpf/unwind"
	"github.com/headwater/headwater/flame/demangle"
)

const (
	// maxNamedPlaces is the number of locations to keep from one round to the next, some 4 MB.
	maxNamedPlaces = 12 << 10
	// placeRounds is the number of rounds after which an unused location is dropped, if there are too many.
	placeRounds = 3
)

// namedPlaces caches the locations in files of earlier rounds. Programs mostly run the same code in each round, and
// naming an address takes several times as long as finding it here. Guarded by Builder.collecting.
type namedPlaces struct {
	how    naming
	places map[place]*namedPlace
	recent [recentPlaces]recentPlace // entries of places used in this round
	round  uint32
}

// recentPlaces is the number of places that are found without a map lookup: the outer frames of a program are in most
// of its stacks, and are looked up again and again.
const recentPlaces = 1 << 9

type recentPlace struct {
	at place
	of *namedPlace // nil if the slot is empty
}

// slotOf returns the slot of a place in p.recent, which may hold another place.
func (p *namedPlaces) slotOf(at place) *recentPlace {
	return &p.recent[(at.vaddr*0x9e3779b97f4a7c15>>32^at.in)%recentPlaces]
}

// naming holds the options for names.
type naming struct {
	demangle demangle.Mode
	inline   bool
}

func namingOf(o *Options) naming {
	return naming{o.Demangle, !o.NoInlinedFrames}
}

// place is an address in a file. It has no padding, so that a map hashes it in one step.
type place struct {
	vaddr uint64
	in    uint64 // the executable, and whether vaddr is a return address, see placeOf
}

type namedPlace struct {
	userLocation
	used uint32 // round of the last use
}

func newNamedPlaces() *namedPlaces { return &namedPlaces{places: map[place]*namedPlace{}} }

// begin starts a round with the given naming. It drops the places of forgotten objects, as their names may have
// changed.
func (p *namedPlaces) begin(how naming, forgotten map[uint32]bool) {
	p.recent = [recentPlaces]recentPlace{}
	if how != p.how {
		p.how = how
		clear(p.places)
	}
	if len(forgotten) > 0 {
		maps.DeleteFunc(p.places, func(at place, _ *namedPlace) bool { return forgotten[uint32(at.exeID())] })
	}
	p.round++
}

// keeps reports whether the location of a frame is kept. Only locations in files are kept, as their number is bounded.
func (p *namedPlaces) keeps(f kernel.Frame) bool {
	return f.Exe != 0 && f.Code == 0 && f.Flags&(kernel.Interpreted|kernel.UnnamedJIT) == 0
}

func placeOf(f kernel.Frame) place {
	in := uint64(f.Exe) << 1
	if f.Flags&kernel.ReturnAddress != 0 {
		in |= 1
	}
	return place{f.Vaddr, in}
}

func (p place) exeID() unwind.ExeID { return unwind.ExeID(p.in >> 1) }

// getLocation returns the location of a frame, or false if it is not known.
func (p *namedPlaces) getLocation(f kernel.Frame) (userLocation, bool) {
	if !p.keeps(f) {
		return userLocation{}, false
	}
	at := placeOf(f)
	recent := p.slotOf(at)
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

// putLocation stores the location of a frame.
func (p *namedPlaces) putLocation(f kernel.Frame, l userLocation) {
	p.places[placeOf(f)] = &namedPlace{l, p.round}
}

// endRound evicts places not used recently if there are too many, and clears the cache if it is still far over the
// limit.
func (p *namedPlaces) endRound() {
	if len(p.places) <= maxNamedPlaces {
		return
	}
	maps.DeleteFunc(p.places, func(_ place, l *namedPlace) bool { return p.round-l.used >= placeRounds })
	if len(p.places) > 2*maxNamedPlaces {
		p.places = map[place]*namedPlace{} // clear would keep the memory
	}
}
