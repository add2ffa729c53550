package server

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/klauspost/compress/gzip"

	"github.com/headwater/headwater/flame/tree"
)

// maxTrieNodes bounds the memory of a tree.Builder: about 100 bytes per node.
const maxTrieNodes = 250_000

// Upper limits of request parameters.
const (
	maxTreeNodes = 100_000 // of parameter max
	maxTreeShare = 50      // of parameter min, in percent
)

// treeAnswer is the answer of api/tree.
type treeAnswer struct {
	flameAbout
	Root string `json:"root,omitempty"` // as requested
	*tree.Tree
}

// treeOptions are the parameters of api/tree that do not select profiles.
type treeOptions struct {
	tree.Options
	root  tree.PathID // the node whose subtree is requested
	below bool        // root is set
}

// parseTreeOptions reads the parameters root, min (percent) and max.
func parseTreeOptions(v url.Values) (o treeOptions, err error) {
	if text := v.Get("root"); text != "" {
		o.below = true
		if o.root, err = tree.ParsePathID(text); err != nil {
			return o, fmt.Errorf("root: %w", err)
		}
	}
	if text := v.Get("min"); text != "" {
		percent, err := strconv.ParseFloat(text, 64)
		if err != nil || !(percent >= 0 && percent <= maxTreeShare) {
			return o, fmt.Errorf("min %.40q is no share from 0 to %d percent", text, maxTreeShare)
		}
		if o.Share = percent / 100; percent == 0 {
			o.Share = -1
		}
		o.Enough = 1
	}
	if o.MaxNodes, err = intParameter(v, "max", maxTreeNodes); err != nil {
		return o, err
	}
	if o.MaxNodes > 0 && (o.Enough == 0 || o.Enough > o.MaxNodes) {
		o.Enough = o.MaxNodes
	}
	return o, nil
}

// newTree adds up the profiles to a flame graph, newest first, within the limits.
func (p *Page) newTree(entries []*kept, s selection, o treeOptions) (*answer, error) {
	m := p.makers.takeMaker()
	defer p.makers.giveBack(m)
	about, _, err := p.readProfiles(entries, s, withinBytes(), m.tree.Add)
	if err != nil {
		return nil, err
	}
	root, tree := "", (*tree.Tree)(nil)
	if o.below {
		root, tree = o.root.String(), m.tree.TreeBelow(o.root, o.Options)
	} else {
		tree = m.tree.Tree(o.Options)
	}
	if tree == nil {
		return nil, errNoNode
	}
	data, err := compress(treeAnswer{about, root, tree})
	return &answer{about, data}, err
}

// errNoNode says that a selection has no such node.
var errNoNode = errors.New("there is no such node in these profiles")

// flame returns the flame graph of a selection.
func (p *Page) flame(r *http.Request, s selection) (*answer, error) {
	tree := r.Clone(r.Context())
	tree.URL.Path = "/api/tree"
	return p.answers.getView(r.Context(), answerKey(tree, s, nil), func() (*answer, error) {
		return withPicked(p, s, func(picked []*kept) (*answer, error) { return p.newTree(picked, s, treeOptions{}) })
	})
}

// flamePage is the data of the template of the flame graph's page.
type flamePage struct {
	flameAbout
	Name                             string
	Overview, Tree, Download, Series string // relative links
	Functions, Sandwich, Lines       string
	FromMS, ToMS                     int64
	Fields                           []field
	Ranges                           []rangeLink
	Group                            string // the chosen label
	Groupings                        []grouping
	Exports                          []exportLink
	Record                           *recordForm // nil: recordings are not possible
}

// serveFlame answers with the page of a flame graph. A request relative to the newest profile is redirected to absolute
// times, so that the page always shows the same profiles.
func (p *Page) serveFlame(w http.ResponseWriter, r *http.Request) {
	v := r.URL.Query()
	if !isFixed(v) {
		p.serveOpen(w, r)
		return
	}
	s, err := fixedSelection(v)
	if err != nil {
		p.failPage(w, "./", http.StatusBadRequest, err.Error())
		return
	}
	f, err := p.flame(r, s)
	if err != nil {
		p.failSelection(w, s, err)
		return
	}
	_, onDisk := p.Disk()
	offered := p.offered(s)
	p.render(w, http.StatusOK, "flame.html", flamePage{
		flameAbout: f.about, Name: p.options.Name,
		Overview: "./?" + url.Values{"target": {s.target}}.Encode(), Tree: "./api/tree?" + s.values().Encode(),
		Download:  "./download?" + s.values().Encode(),
		Functions: "./api/top?" + s.values().Encode(), Sandwich: "./api/sandwich?" + s.values().Encode(),
		Lines:  "./api/lines?" + s.values().Encode(),
		Series: seriesLink(s), FromMS: s.from, ToMS: s.to,
		Fields: p.fields(s, offered), Record: p.recordForm(s, offered),
		Exports: exportLinks(s), Ranges: rangeLinks(s, onDisk),
		Group: s.root, Groupings: groupingsOf(f.about.Labels, s.root),
	})
}

// serveTree answers with the data of a flame graph.
func (p *Page) serveTree(w http.ResponseWriter, r *http.Request) {
	o, err := parseTreeOptions(r.URL.Query())
	if err != nil {
		failJSON(w, http.StatusBadRequest, err.Error())
		return
	}
	p.serveAnswer(w, r, func(entries []*kept, s selection) (*answer, error) {
		return p.newTree(entries, s, o)
	}, "root", "min", "max")
}

// sendJSON answers with JSON that compress has produced.
func sendJSON(w http.ResponseWriter, r *http.Request, data []byte) {
	header := w.Header()
	header.Set("Content-Type", "application/json")
	header.Set("Vary", "Accept-Encoding")
	if acceptsGzip(r) {
		header.Set("Content-Encoding", "gzip")
		header.Set("Content-Length", strconv.Itoa(len(data)))
		w.Write(data)
		return
	}
	if text, err := gzip.NewReader(bytes.NewReader(data)); err == nil { // always true: data comes from compress
		io.Copy(w, text)
	}
}

// treeSelection returns the selection of the parameters of api/tree.
func (p *Page) treeSelection(v url.Values) (selection, error) {
	if isFixed(v) {
		return fixedSelection(v)
	}
	q, err := parseQuery(v)
	if err != nil {
		return selection{}, err
	}
	return q.resolve(p.newestEnd()), nil
}

// explainFailure returns the response for a view that cannot be made.
func explainFailure(err error) (status int, message string) {
	switch {
	case errors.Is(err, errGone):
		return http.StatusGone, "These profiles are no longer kept."
	case errors.Is(err, errNoSamples):
		return http.StatusNotFound, "No sample of these profiles matches. " +
			"Threads need thread_name_label = true, and PIDs pid_label = true."
	case errors.Is(err, errNoFunction):
		return http.StatusNotFound, "No sample of these profiles has this function."
	case errors.Is(err, errNoNode):
		return http.StatusNotFound, "These profiles have no such frame."
	default:
		return http.StatusInternalServerError, err.Error()
	}
}

func failJSON(w http.ResponseWriter, status int, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(map[string]string{"error": message})
}

// acceptsGzip reports whether a client accepts compressed answers.
func acceptsGzip(r *http.Request) bool {
	for _, accepted := range strings.Split(strings.Join(r.Header.Values("Accept-Encoding"), ","), ",") {
		coding, weight, _ := strings.Cut(strings.ReplaceAll(accepted, " ", ""), ";q=")
		if coding == "gzip" {
			q, err := strconv.ParseFloat(weight, 64)
			return weight == "" || err == nil && q > 0
		}
	}
	return false
}
