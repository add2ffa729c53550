package export

import (
	"bufio"
	"fmt"
	"html"
	"io"

	"github.com/google/pprof/profile"

	"github.com/headwater/headwater/flame/tree"
)

// Sizes of an SVG image, in pixels.
const (
	svgWidth  = 1200
	svgRow    = 18
	svgTop    = 30
	svgLetter = 6.6 // width of one letter, on average
	svgThin   = 0.3 // narrower frames are left out
)

// svgColors returns the colours of the page, which people with colour blindness can distinguish.
func svgColors() map[string]string {
	return map[string]string{
		"kernel": "#f0b95c", "native": "#8cc5ec", "inlined": "#c4e2f8", "runtime": "#63c79a", "jit": "#e79ac6",
		"unnamed": "#d3d7d8", "other": "#e2e8e9", "small": "#e9eced",
	}
}

// SVG writes a flame graph as an image without scripts, so that it can be part of documents. Pointing at a frame shows
// its name and share.
func SVG(w io.Writer, p *profile.Profile) error {
	b := tree.NewBuilder(nil)
	if err := b.Add(withThreads(p)); err != nil {
		return err
	}
	tree := b.Tree(tree.Options{})
	rows := 0
	for _, depth := range tree.Nodes.Depth {
		rows = max(rows, int(depth)+1)
	}
	out := bufio.NewWriter(w) // Flush reports errors
	height := svgTop + rows*svgRow + 10
	fmt.Fprintf(out, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" `+
		`font-family="system-ui, sans-serif" font-size="12">`+"\n", svgWidth, height, svgWidth, height)
	fmt.Fprintf(out, `<rect width="100%%" height="100%%" fill="#ffffff"/><text x="4" y="20" font-size="15">%s</text>`+"\n",
		html.EscapeString(Title(p)))
	writeSVGFrames(out, tree)
	fmt.Fprintln(out, "</svg>")
	return out.Flush()
}

// writeSVGFrames writes the nodes, which are in preorder.
func writeSVGFrames(out io.Writer, tree *tree.Tree) {
	colors := svgColors()
	n := &tree.Nodes
	scale := svgWidth / float64(max(n.Total[0], 1))
	next := make([]int64, len(n.Frame)+1) // by depth: start of the next node
	for i, frame := range n.Frame {
		depth := n.Depth[i]
		begin := next[depth]
		next[depth] += n.Total[i]
		next[depth+1] = begin
		width := float64(n.Total[i]) * scale
		if width < svgThin {
			continue
		}
		name, kind := "all", "other"
		switch {
		case frame >= 0:
			name = tree.Strings[tree.Frames.Name[frame]]
			kind = tree.Kinds.Name[tree.Frames.Kind[frame]]
		case frame < -1:
			name, kind = fmt.Sprintf("(%d more)", -1-frame), "small"
		}
		x, y := float64(begin)*scale, svgTop+int(depth)*svgRow
		fmt.Fprintf(out, `<g><title>%s: %.1f %%</title><rect x="%.2f" y="%d" width="%.2f" height="%d" fill="%s"/>`,
			html.EscapeString(cutName(name, maxTraceName)), 100*float64(n.Total[i])/float64(max(n.Total[0], 1)),
			x, y, max(width-0.5, 0.2), svgRow-1, colors[kind])
		if letters := int((width - 6) / svgLetter); letters >= 2 {
			fmt.Fprintf(out, `<text x="%.2f" y="%d">%s</text>`, x+3, y+svgRow-5, html.EscapeString(cutName(name, letters)))
		}
		fmt.Fprintln(out, "</g>")
	}
}

// cutName shortens a name to a number of letters.
func cutName(name string, letters int) string {
	runes := []rune(name)
	if len(runes) <= letters {
		return name
	}
	return string(runes[:letters-1]) + "…"
}
