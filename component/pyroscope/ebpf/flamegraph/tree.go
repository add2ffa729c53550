package flamegraph

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
	"sync"
	"sync/atomic"
	"time"

	"github.com/klauspost/compress/gzip"

	"github.com/headwater/headwater/ebpf/trie"
)

// maxTrieNodes bounds the memory that making a flame graph takes: some 100 bytes a node.
const maxTrieNodes = 250_000

// Limits of what a client may ask for.
const (
	maxTreeNodes = 100_000 // of parameter max
	maxTreeShare = 50      // of parameter min, in percent
)

// treeAnswer is what api/tree answers.
type treeAnswer struct {
	flameAbout
	Root string `json:"root,omitempty"` // as asked for
	*trie.Tree
}

// treeOptions are the parameters of api/tree that select no profiles.
type treeOptions struct {
	trie.Options
	root  trie.PathID // of the node whose subtree is wanted
	below bool        // there is a root
}

// parseTreeOptions reads the parameters root, min (percent) and max.
func parseTreeOptions(v url.Values) (o treeOptions, err error) {
	if text := v.Get("root"); text != "" {
		o.below = true
		if o.root, err = trie.ParsePathID(text); err != nil {
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

// newTree adds up the profiles as a flame graph, the newest first, within the limits.
func (p *Page) newTree(entries []*kept, s selection, o treeOptions) (*answer, error) {
	b := p.builders.take()
	defer p.builders.giveBack(b)
	about, _, err := p.read(entries, s, b)
	if err != nil {
		return nil, err
	}
	of, root := b, ""
	if o.below {
		if of, root = b.Below(o.root), o.root.String(); of.Total() == 0 {
			return nil, errNoNode
		}
	}
	data, err := p.zip.compress(treeAnswer{about, root, of.Tree(o.Options)})
	return &answer{about, data}, err
}

// builders keeps a builder of flame graphs while somebody looks: most of what one takes is room for nodes, which the
// next one takes, too. It is safe for concurrent use.
type builders struct {
	free atomic.Pointer[trie.Builder]
	used atomic.Int64 // when it was used last, in ns since 1970
}

// take returns an empty builder. Names are as they were folded.
func (b *builders) take() *trie.Builder {
	if kept := b.free.Swap(nil); kept != nil {
		return kept
	}
	return trie.NewBuilder(nil)
}

// giveBack keeps a builder for the next flame graph.
func (b *builders) giveBack(used *trie.Builder) {
	used.Reset()
	b.used.Store(time.Now().UnixNano())
	if other := b.free.Swap(used); other != nil {
		other.Release()
	}
}

// expire gives up a builder that was not used for a while.
func (b *builders) expire(now time.Time) {
	if now.UnixNano()-b.used.Load() > maxBuilderIdle.Nanoseconds() {
		b.drop()
	}
}

// drop gives up the builder that is kept.
func (b *builders) drop() {
	if kept := b.free.Swap(nil); kept != nil {
		kept.Release()
	}
}

// errNoNode says that a selection has no such node.
var errNoNode = errors.New("there is no such node in these profiles")

// compression is a level of gzip: the lowest at which the flame graph of a busy host has about 150 KB.
const compression = 5

// compressors keep what compresses, each of which takes a megabyte, for the next answers.
type compressors struct{ sync.Pool }

// compressor is one of them, and what it has made.
type compressor struct {
	*gzip.Writer
	out bytes.Buffer
}

// compress returns JSON, compressed.
func (c *compressors) compress(answer any) ([]byte, error) {
	w, ok := c.Get().(*compressor)
	if !ok {
		w = new(compressor)
		var err error
		if w.Writer, err = gzip.NewWriterLevel(&w.out, compression); err != nil {
			return nil, err
		}
	}
	defer c.Put(w)
	w.out.Reset()
	w.Reset(&w.out)
	if err := json.NewEncoder(w).Encode(answer); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return bytes.Clone(w.out.Bytes()), nil // it is kept, and so has no more memory than it needs
}

// flame returns the flame graph of a selection.
func (p *Page) flame(r *http.Request, s selection) (*answer, error) {
	tree := r.Clone(r.Context())
	tree.URL.Path = "/api/tree"
	return p.answers.get(r.Context(), answerKey(tree, s, nil), func() (*answer, error) {
		return withPicked(p, s, func(picked []*kept) (*answer, error) { return p.newTree(picked, s, treeOptions{}) })
	})
}

// flamePage is what the template of the flame graph's page shows.
type flamePage struct {
	flameAbout
	Name                            string
	Overview, Tree, Pprof, Download string // relative links
	Top, Series                     string
	Functions, Sandwich, Lines      string
	FromMS, ToMS                    int64
	Fields                          []field
	Ranges                          []rangeLink
	Group                           string // the label that is chosen
	Groupings                       []grouping
	Exports                         []exportLink
	Record                          *recordForm // nil: nothing can be recorded
}

// serveFlame answers with the page of a flame graph. One that is asked for relative to the
// newest profile is fixed, so that it stays the same however long it is looked at.
func (p *Page) serveFlame(w http.ResponseWriter, r *http.Request) {
	v := r.URL.Query()
	if !isFixed(v) {
		p.serveOpen(w, r)
		return
	}
	s, err := fixedSelection(v)
	if err != nil {
		p.fail(w, "./", http.StatusBadRequest, err.Error())
		return
	}
	f, err := p.flame(r, s)
	if err != nil {
		p.failSelection(w, s, err)
		return
	}
	pprof := "./ui/" + s.String()
	_, onDisk := p.Disk()
	p.render(w, http.StatusOK, "flame.html", flamePage{
		flameAbout: f.about, Name: p.options.Name,
		Overview: "./?" + url.Values{"target": {s.target}}.Encode(), Tree: "./api/tree?" + s.values().Encode(),
		Pprof: pprof + "/flamegraph", Top: pprof + "/top", Download: pprof + "/download",
		Functions: "./api/top?" + s.values().Encode(), Sandwich: "./api/sandwich?" + s.values().Encode(),
		Lines:  "./api/lines?" + s.values().Encode(),
		Series: seriesLink(s), FromMS: s.from, ToMS: s.to,
		Fields: p.fields(s), Record: p.recordForm(s), Exports: exportLinks(s), Ranges: rangeLinks(s, onDisk),
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

// sendJSON answers with JSON that compress has made.
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
	if text, err := gzip.NewReader(bytes.NewReader(data)); err == nil { // it is: data is ours
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

// explainFailure says to visitors why there is no view.
func explainFailure(err error) (status int, message string) {
	switch {
	case errors.Is(err, errGone):
		return http.StatusGone, "These profiles are no longer kept."
	case errors.Is(err, errNoSamples):
		return http.StatusNotFound, "There are no such samples in these profiles."
	case errors.Is(err, errNoFunction):
		return http.StatusNotFound, "There is no such function in these profiles."
	case errors.Is(err, errNoNode):
		return http.StatusNotFound, "There is no such node in these profiles."
	default:
		return http.StatusInternalServerError, err.Error()
	}
}

func failJSON(w http.ResponseWriter, status int, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(map[string]string{"error": message})
}

// acceptsGzip reports whether a client takes answers compressed.
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
