package cfi

// Finder finds the rules of addresses of a process.
type Finder interface {
	// Find returns the rules at an address of the process, and the load bias of its file. The end
	// is Unset or NoMapping; the error is an error of Table.Find.
	Find(addr uint64) (rules *Rules, bias uint64, end End, err error)
}

// Walk unwinds from a frame to the root of the stack. It calls yield with every frame, including
// the first, at most max frames. The frame is valid only during the call. The error gives details
// about the end. It is nil if the end is complete, NoMapping, NoProgress or DepthLimit.
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
