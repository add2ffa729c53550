package jit

import (
	"bytes"
	"strconv"
)

// parsePerfMap adds complete lines "START SIZE NAME", numbers in hex (Linux,
// tools/perf/Documentation/jit-interface.txt), and returns the length of all complete lines in bytes. It skips lines in
// other forms and lines that are too long.
func (t *table) parsePerfMap(b []byte) (used int) {
	for {
		end := bytes.IndexByte(b[used:], '\n')
		if end < 0 {
			if len(b)-used > MaxLine {
				return len(b)
			}
			return used
		}
		t.parseMapLine(bytes.TrimRight(b[used:used+end], "\r"))
		used += end + 1
	}
}

func (t *table) parseMapLine(line []byte) {
	start, rest, ok := hexWord(line)
	if !ok {
		return
	}
	size, name, ok := hexWord(rest)
	if !ok {
		return
	}
	t.addFunction(start, size, bytes.TrimSpace(name), 0, 0)
}

// hexWord splits off a number in hex, with or without 0x.
func hexWord(b []byte) (v uint64, rest []byte, ok bool) {
	word, rest, ok := bytes.Cut(b, []byte{' '})
	if !ok {
		return 0, nil, false
	}
	word = bytes.TrimPrefix(word, []byte("0x"))
	v, err := strconv.ParseUint(string(word), 16, 64)
	return v, rest, err == nil
}
