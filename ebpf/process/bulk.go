package process

// Walks that miss a page of an executable again and again will miss its neighbours next: what a program does is often in
// a few of its source files, whose functions lie next to each other. A miss costs the copy of a stack and waking up,
// many times what it takes to build the page after another. So where walks have missed some pages, those around are
// built with the next, and more of them where walks have missed many.
const (
	someMissed = 8
	manyMissed = 64
	fewAround  = 16 // pages with the missed one, a power of two
	manyAround = 64
)

// around is how many pages are built when one is missed.
func (i *image) around() uint64 {
	switch {
	case i.elf == nil || i.missed < someMissed: // code that is made while it runs changes
		return 1
	case i.missed < manyMissed:
		return fewAround
	}
	return manyAround
}

// buildAround makes the pages around one that a walk has missed resident, if that is likely to pay. What cannot be read
// or stored is left to the walks that want it. i.building is held.
func (i *image) buildAround(store Store, n uint64) {
	i.missed++
	size := i.around()
	if size == 1 {
		return
	}
	first := n - n%size
	for _, page := range store.Unbuilt(i.directory, first, first+size) {
		p, err := i.rows.Page(page, i.directory.Shift)
		if err != nil || store.SetPage(i.directory, page, p) != nil {
			return
		}
	}
}
