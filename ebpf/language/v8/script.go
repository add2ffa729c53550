package v8

import (
	"slices"
	"strings"
	"time"
)

// Limits on the data of a script.
const (
	maxFile   = 1 << 10 // characters of a name
	maxSource = 4 << 20 // characters of a source; a longer source has no lines
	maxLines  = 1 << 18 // number of lines; a source with more has no lines
)

// script is a source file, or an evaluated text.
type script struct {
	source tagged // a string
	file   string
	offset int   // lines before the first
	ends   []int // characters where lines end; nil if unknown
}

// script reads a script.
func (m *reader) script(v tagged) *script {
	b := m.typed(v, m.l.ScriptLineOffset+8, m.l.TypeScript)
	offset, _ := b.wordAt(m.l.ScriptLineOffset).smi()
	s := &script{source: b.wordAt(m.l.ScriptSource), offset: max(offset, 0)}
	if name := b.wordAt(m.l.ScriptName); m.isString(name) {
		s.file = strings.TrimPrefix(m.readText(name, maxFile), "file://")
	}
	if m.err != nil {
		return nil
	}
	length := int(m.object(s.source, m.l.StringLength+4).u32(m.l.StringLength))
	if m.err == nil && length < maxSource {
		read := func() []int { return m.lineEnds(s.source) }
		s.ends = m.lines.linesOf(source{m.memory, v, s.source, length}, time.Now(), read)
	}
	if m.err != nil {
		s.ends, m.err = nil, nil // a function without lines still has a name
	}
	return s
}

// isString reports whether a word is a string: names may be undefined.
func (m *reader) isString(v tagged) bool {
	if !v.object() || m.err != nil {
		return false
	}
	typ := m.typeOf(m.object(v, 8))
	return m.err == nil && typ < m.l.TypeNonString
}

// lineOf returns the line of a character, starting from 1, or 0 if it is unknown.
func (s *script) lineOf(character int) int {
	if s == nil || s.ends == nil || character < 0 {
		return 0
	}
	n, _ := slices.BinarySearch(s.ends, character)
	return n + 1 + s.offset
}

// lineEnds returns the characters at which lines of a source end, as JavaScript defines them: LF, CR, CR LF, U+2028 and
// U+2029. The last line has no end.
func (m *reader) lineEnds(source tagged) []int {
	ends := []int{}
	at, cr := 0, false
	budget := m.budget
	m.budget = 2*maxSource + budget
	m.eachPart(source, maxSource, func(b []byte, wide bool) bool {
		step := 1
		if wide {
			step = 2
		}
		for i := 0; i+step <= len(b); i += step {
			c := int(b[i])
			if wide {
				c |= int(b[i+1]) << 8
			}
			switch {
			case c == '\n' && cr:
				ends[len(ends)-1] = at
			case c == '\n' || c == '\r' || c&^1 == 0x2028:
				ends = append(ends, at)
			}
			cr = c == '\r'
			at++
		}
		return len(ends) < maxLines
	})
	m.budget = budget
	if m.err != nil || at == maxSource || len(ends) >= maxLines {
		return nil
	}
	return ends
}
