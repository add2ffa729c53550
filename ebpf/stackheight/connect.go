package stackheight

// connections say which instructions certainly belong to one function, as one leads to the other, and how much more of
// the stack one has than the other. What follows a call is not connected with it: the call may not return, and the next
// instruction is another function's then, or that of another way through the same one.
type connections struct {
	a       *Analysis
	parent  []int32
	more    []int32 // bytes that an instruction has on the stack more than its parent
	anchors []anchor
	callees map[uint64]uint8 // whether functions return, by address
}

// anchor is the height of the first of a group of connected instructions: bytes from the stack pointer to the canonical
// frame address.
type anchor struct {
	height   int32
	strength strength
}

type strength uint8

// From the weakest to the strongest evidence.
const (
	notAnchored strength = iota
	byCall               // the code before or after a call says so, or that which takes a frame away
	byAddress            // code computes the address of an instruction, or a slot of the file says where to go on
	byReturn             // a return, or a call of the first instruction
	contradictory
)

// begin takes the text that was read and connects what leads from one instruction to another.
func (c *connections) begin(a *Analysis) {
	if c.a = a; c.callees == nil {
		c.callees = map[uint64]uint8{}
	}
	n := len(a.code)
	c.parent, c.more, c.anchors = resize(c.parent, n), resize(c.more, n), resize(c.anchors, n)
	for i := range c.parent {
		c.parent[i] = int32(i)
	}
	for i := range a.code {
		c.connect(int32(i))
	}
	for i := range a.code {
		c.anchor(int32(i))
	}
	c.learn()
	for c.byCalls() {
		continue
	}
}

// connect connects an instruction with those that it leads to.
func (c *connections) connect(i int32) {
	in := c.a.code[i]
	n := int32(in.n)
	switch in.effect {
	case nothing, pads, begins, restores, saves, stores, toFP, toBase:
		c.join(i, i+1, 0)
	case moves, pushes, pops:
		if in.n <= maxOffset && in.n >= -maxOffset {
			c.join(i, i+1, -n)
		}
	case branches:
		c.join(i, i+1, 0)
		fallthrough
	case jumps:
		if to, ok := c.a.at(in, in.n); ok {
			c.join(i, to, 0)
		}
	}
}

// join notes that instruction to has more bytes on the stack than instruction from.
func (c *connections) join(from, to, more int32) {
	if int(to) >= len(c.parent) {
		return
	}
	a, overA := c.find(from)
	b, overB := c.find(to)
	switch over := overA + more - overB; {
	case a != b: // height(b) + overB = height(a) + overA + more
		c.parent[b], c.more[b] = a, over
		if c.anchors[b].strength == contradictory || over > maxOffset || over < -maxOffset {
			c.anchors[a].strength = contradictory
		}
	case over != 0:
		c.anchors[a].strength = contradictory
	}
}

// find returns the first of an instruction's group, and how many bytes more the instruction has on the stack.
func (c *connections) find(i int32) (first, more int32) {
	first = i
	for c.parent[first] != first {
		more += c.more[first]
		first = c.parent[first]
	}
	for rest := more; i != first; { // the next search is shorter
		up, step := c.parent[i], c.more[i]
		c.parent[i], c.more[i] = first, rest
		i, rest = up, rest-step
	}
	return first, more
}

// anchor notes the height of instructions that show it.
func (c *connections) anchor(i int32) {
	in := c.a.code[i]
	switch in.effect {
	case returns:
		c.hold(i, wordBytes, byReturn)
	case leavesBy:
		c.hold(i, wordBytes, byAddress)
	}
	if in.refers == 0 {
		return
	}
	if to, ok := c.a.at(in, in.refers); ok {
		by := byAddress
		if in.effect == calls {
			by = byReturn
		}
		c.hold(to, wordBytes, by)
	}
}

// hold notes the height of an instruction.
func (c *connections) hold(i, height int32, by strength) (news bool) {
	first, more := c.find(i)
	a := &c.anchors[first]
	switch height -= more; {
	case a.strength > by, a.strength == by && a.height == height:
		return false
	case a.strength == by:
		by = contradictory
	}
	*a = anchor{height, by}
	return true
}

// height returns the height at an instruction; 0: it is not known.
func (c *connections) height(i int32) int32 {
	first, more := c.find(i)
	if a := c.anchors[first]; a.strength != notAnchored && a.strength != contradictory {
		return max(a.height+more, 0)
	}
	return 0
}

// learn notes of the functions that are called whether they return: the instructions before and after some call have
// heights that other evidence shows.
func (c *connections) learn() {
	clear(c.callees)
	for i := range c.a.code[:max(len(c.a.code)-1, 0)] {
		if c.a.code[i].effect != calls {
			continue
		}
		before, after := c.shown(int32(i)), c.shown(int32(i)+1)
		if before == 0 || after == 0 {
			continue
		}
		if before != after {
			c.callees[c.a.callee(i)] = stays
		} else if callee := c.a.callee(i); after > wordBytes && c.callees[callee] == 0 {
			c.callees[callee] = comesBack
		}
	}
	delete(c.callees, 0)
}

// Whether a function returns.
const (
	comesBack = 1 + iota
	stays
)

// callee returns the address of the function that call i calls, or of the word with its address; 0: it is not known.
func (a *Analysis) callee(i int) uint64 {
	in := a.code[i]
	if in.calls == 0 {
		return 0
	}
	return a.gap.Addr + uint64(in.at) + uint64(in.size) + uint64(in.calls)
}

// shown returns the height at an instruction that other evidence than calls shows; 0: there is none.
func (c *connections) shown(i int32) int32 {
	if first, _ := c.find(i); c.anchors[first].strength == byCall {
		return 0
	}
	return c.height(i)
}

// byCalls notes the heights that calls show which return: that before each is the one after it. A function with as
// little on the stack as where it begins does not call, so that another function begins after such a call. It reports
// whether anything is new.
func (c *connections) byCalls() (news bool) {
	for i := len(c.a.code) - 2; i >= 0; i-- {
		if c.a.code[i].effect != calls || c.callees[c.a.callee(i)] == stays {
			continue
		}
		if after := c.height(int32(i) + 1); after > wordBytes && c.comesBack(int32(i), after) &&
			c.hold(int32(i), after, byCall) {
			news = true
		}
	}
	for i := range c.a.code[:max(len(c.a.code)-1, 0)] {
		if c.a.code[i].effect != calls || c.a.mayEnd(i) {
			continue
		}
		if callee := c.a.callee(i); callee != 0 && c.callees[callee] != comesBack {
			continue
		}
		if before := c.height(int32(i)); before > wordBytes && c.height(int32(i)+1) == 0 &&
			c.hold(int32(i)+1, before, byCall) {
			news = true
		}
	}
	return news
}

// comesBack reports whether nothing contradicts that call i returns to where this many bytes are on the stack: what the
// code before it has pushed for it is taken off again, unless that is where a function begins.
func (c *connections) comesBack(i, height int32) bool {
	begin := i
	for begin > 0 && c.a.code[begin-1].goesOn() {
		begin--
	}
	_, more := c.find(i)
	first, above := c.find(begin)
	if at, _ := c.find(i); at != first || more <= above || height-(more-above) == wordBytes {
		return true
	}
	for i++; int(i) < len(c.a.code); i++ {
		switch in := c.a.code[i]; in.effect {
		case moves, pops:
			return in.n > 0
		case nothing, pads, restores, saves, stores, toBase:
		default:
			return false
		}
	}
	return false
}

// goesOn reports whether the next instruction certainly may be executed after this one.
func (in instruction) goesOn() bool {
	switch in.effect {
	case returns, jumps, jumpsAnyway, leavesBy, stops, calls:
		return false
	}
	return true
}

// byFrames notes the heights where frames begin whose base is in a register, as the code says that removes the frame.
func (c *connections) byFrames() {
	for i := range c.a.code[:max(len(c.a.code)-1, 0)] {
		now, next := c.a.states[i], c.a.states[i+1]
		if now.rule.Kind != SP || now.contradiction || next.contradiction {
			continue
		}
		if e := c.a.code[i].effect; e == toFP && next.rule.Kind == FP || e == toBase && next.rule.Kind == Base {
			c.hold(int32(i), now.rule.Off, byCall)
		}
	}
}

// endsFunction reports whether the call i does not return, since the next instruction has another height.
func (c *connections) endsFunction(i int32) bool {
	if int(i)+1 >= len(c.parent) {
		return false
	}
	before, after := c.height(i), c.height(i+1)
	return c.callees[c.a.callee(int(i))] == stays || after != 0 && before != after && (before != 0 || after <= wordBytes)
}
