package top

import (
	"fmt"
	"path"
	"strings"

	"github.com/clipperhouse/displaywidth"

	"github.com/headwater/headwater/flame/tree"
)

// flameHead describes the selected box.
func (v *View) flameHead() Line {
	if len(v.boxes) == 0 {
		return Line{styledText(Head, "%s", padText("", v.columns))}
	}
	b := &v.boxes[findBox(v.boxes, v.at)]
	text := "all"
	if b.frame != all {
		f := v.window.names.all[b.frame]
		text = f.Name
		if f.Binary != "" {
			text += "  " + path.Base(f.Binary) + "  " + f.Kind.String()
		}
	}
	text = fmt.Sprintf("%s total  %s self  %s CPU%%  %s", percent(b.total, v.total), percent(b.self, v.total),
		v.formatCPU(b.total), text)
	return Line{styledText(Head, "%s", padText(text, v.columns))}
}

// flameLines draws the flame graph. If it is too deep, it draws the part around the selected box.
func (v *View) flameLines(height int) []Line {
	if len(v.boxes) == 0 {
		return []Line{{styledText(Faint, "%s", v.nothing())}}
	}
	selected := findBox(v.boxes, v.at)
	deepest := 0
	for _, b := range v.boxes {
		deepest = max(deepest, b.depth)
	}
	depth := v.boxes[selected].depth
	first := max(0, min(depth-height/2, deepest+1-height))
	var out []Line
	for d := first; d < min(deepest+1, first+height); d++ {
		out = append(out, v.flameLine(d, selected))
	}
	if v.upside {
		for i := range len(out) / 2 {
			out[i], out[len(out)-1-i] = out[len(out)-1-i], out[i]
		}
		for len(out) < height {
			out = append([]Line{nil}, out...)
		}
	}
	return out
}

// flameLine draws the boxes at a depth.
func (v *View) flameLine(depth, selected int) (out Line) {
	at := 0
	for i, b := range v.boxes {
		if b.depth != depth {
			continue
		}
		if b.x > at {
			out = append(out, styledText(Plain, "%s", strings.Repeat(" ", b.x-at)))
		}
		out = append(out, v.boxSpan(&b, i == selected))
		at = b.x + b.width
	}
	return out
}

// boxSpan draws a box: an edge, and the part of the name that fits.
func (v *View) boxSpan(b *box, selected bool) Span {
	name, kind := "all", tree.Other
	if b.frame != all {
		name, kind = v.window.names.all[b.frame].Name, v.window.names.all[b.frame].Kind
	}
	style := Style{Box, kind}
	if selected {
		style.Look = Selected
	}
	const few = 4 // columns: too narrow for letters
	switch {
	case b.width < few:
		name = ""
	case displaywidth.String(name) >= b.width:
		name = short(name)
	}
	return Span{padText("▏"+name, b.width), style}
}

// short shortens the package path of a Go function: "example.com/jit.(*table).add" becomes "jit.(*table).add".
func short(name string) string {
	head := name
	if end := strings.IndexAny(name, "(<[ "); end >= 0 {
		head = name[:end]
	}
	if slash := strings.LastIndexByte(head, '/'); slash >= 0 && slash+1 < len(head) {
		return name[slash+1:]
	}
	return name
}
