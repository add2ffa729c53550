package corefile

import "bytes"

// Bounds of the search for the start of the first thread's stack: by default the kernel lets a program have 2 MiB of
// arguments and environment (execve(2)).
const (
	maxAboveVector = 4 << 20
	maxArguments   = 1 << 20
	vectorHead     = 32 // bytes of the vector that are searched for
)

// StartStack returns the address at which the kernel started the stack of the program's first thread, 0 if it cannot be
// found. That word is the number of arguments. Above it are the addresses of the arguments, 0, the addresses of the
// environment, 0, and the auxiliary vector (System V ABI, AMD64 supplement, figure 3.9).
func (c *Core) StartStack() uint64 {
	at := c.findVector()
	if at == 0 {
		return 0
	}
	environment := c.skipPointers(at, func(v, _ uint64) bool { return v == 0 })
	if environment == 0 {
		return 0
	}
	// No address is as small as the number of arguments.
	return c.skipPointers(environment+8, func(v, count uint64) bool { return v == count })
}

// findVector returns the address of the auxiliary vector. The memory to which AT_RANDOM points is above it.
func (c *Core) findVector() uint64 {
	top := c.auxiliar[auxRandom]
	if top < maxAboveVector || len(c.vector) < vectorHead {
		return 0
	}
	const page = 4096
	b := make([]byte, page+vectorHead)
	for down := uint64(0); down <= maxAboveVector; down += page {
		start := top&^(page-1) - down
		n, _ := c.memory.ReadAt(b, int64(start)) // as far as it can be read
		if n == 0 {
			return 0 // below the stack
		}
		if at := bytes.LastIndex(b[:n], c.vector[:vectorHead]); at >= 0 {
			return start + uint64(at)
		}
	}
	return 0
}

// skipPointers goes down from the end of a list of addresses with a final 0. It returns the address of the word before
// the list, for which ends returns true with its value and the number of addresses; 0 if there is no such list.
func (c *Core) skipPointers(after uint64, ends func(v, count uint64) bool) (before uint64) {
	if zero, ok := c.readWord(after - 8); !ok || zero != 0 {
		return 0
	}
	for count := range uint64(maxArguments) {
		at := after - 16 - 8*count
		v, ok := c.readWord(at)
		if !ok || at > after {
			return 0
		}
		if ends(v, count) {
			return at
		}
	}
	return 0
}

func (c *Core) readWord(addr uint64) (uint64, bool) {
	var b [8]byte
	_, err := c.memory.ReadAt(b[:], int64(addr))
	return order.Uint64(b[:]), err == nil
}
