package river

import (
	"bytes"
	"slices"

	"github.com/grafana/river/ast"
)

// ProfilingText returns text, the file of that name in the loaded configuration, without the statements that
// Options.ProfilingOnly leaves out and without the comments directly above them. It is not formatted.
func (r *Runtime) ProfilingText(name string, text []byte) []byte {
	var cuts [][2]int
	r.root.walkModules(func(m *module) {
		for _, stmt := range m.graph.Load().leftOut {
			start, end := ast.StartPos(stmt).Position(), ast.EndPos(stmt).Position()
			if start.Filename == name {
				cuts = append(cuts, wholeLines(text, start.Offset, end.Offset+1))
			}
		}
	})
	slices.SortFunc(cuts, func(a, b [2]int) int {
		if a[0] != b[0] {
			return a[0] - b[0]
		}
		return b[1] - a[1]
	})
	var out bytes.Buffer
	at := 0
	for _, cut := range cuts {
		if cut[0] >= at {
			out.Write(text[at:cut[0]])
		}
		at = max(at, cut[1])
	}
	out.Write(text[at:])
	return out.Bytes()
}

// wholeLines extends a range to whole lines if nothing else is in them, and then to the comment lines directly above
// and one empty line below.
func wholeLines(text []byte, from, to int) [2]int {
	start := bytes.LastIndexByte(text[:from], '\n') + 1
	end := len(text)
	if i := bytes.IndexByte(text[to:], '\n'); i >= 0 {
		end = to + i + 1
	}
	after := bytes.TrimSpace(text[to:end])
	if len(bytes.TrimSpace(text[start:from])) > 0 || len(after) > 0 && !bytes.HasPrefix(after, []byte("//")) {
		return [2]int{from, to}
	}
	for start > 0 {
		above := bytes.LastIndexByte(text[:start-1], '\n') + 1
		if !bytes.HasPrefix(bytes.TrimSpace(text[above:start]), []byte("//")) {
			break
		}
		start = above
	}
	if i := bytes.IndexByte(text[end:], '\n'); i >= 0 && len(bytes.TrimSpace(text[end:end+i])) == 0 {
		end += i + 1
	}
	return [2]int{start, end}
}
