package cfi

// Finder finds the rules of addresses of a process.
type Finder interface {
	// Find returns the rules that apply at an address of the process, and by how much
	// the file is loaded above its ELF virtual addresses. The end is Unset, or
	// NoMapping; an error is one of Table.Find.
	Find(addr uint64) (rules *Rules, bias uint64, end End, err error)
}

// Walk unwinds from a frame to the root of the stack. It calls yield with every
// frame, the first one included, at most max; the frame is valid during the call
// only. The error says more about an end that is neither complete nor DepthLimit.
func (m Machine) Walk(f Frame, finder Finder, memory Memory, max int, yield func(*Frame)) (End, error) {
	for range max {
		yield(&f)
		rules, bias, end, err := finder.Find(f.Lookup())
		if err != nil {
			return endOf(err), err
		}
		if end != Unset {
			return end, nil
		}
		caller, end, err := m.Step(&f, rules, bias, memory)
		if end != Unset {
			return end, err
		}
		f = caller
	}
	return DepthLimit, nil
}
