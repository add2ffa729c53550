package flamegraph

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/headwater/headwater/ebpf/trie"
)

// maxTrieNodes bounds the memory that making a flame graph takes: some 100 bytes a node.
const maxTrieNodes = 250_000

// flame is a flame graph of one selection: what it is of, and its data.
type flame struct {
	about flameAbout
	data  []byte // answer of api/tree, gzip-compressed
}

// flameAbout says what a flame graph shows.
type flameAbout struct {
	Target  string    `json:"target"`
	Process string    `json:"process"`
	From    time.Time `json:"from"`
	To      time.Time `json:"to"`
	Samples uint64    `json:"samples"`
	Used    int       `json:"profiles"` // the newest
	Of      int       `json:"of"`       // profiles of the selection
}

// treeAnswer is what api/tree answers.
type treeAnswer struct {
	flameAbout
	*trie.Tree
}

// newFlame adds up the profiles, the newest first, within the limits.
func newFlame(entries []*kept, s selection) (*flame, error) {
	b := trie.NewBuilder(flameName)
	used, read := 0, 0
	for used < len(entries) && read < maxMergedBytes && b.Nodes() < maxTrieNodes {
		k := entries[len(entries)-1-used]
		parts, err := decode([]*kept{k}, s)
		if err != nil {
			return nil, err
		}
		if s.root != "" {
			addRoots(parts[0], s.root)
		}
		if err := b.Add(parts[0]); err != nil {
			return nil, fmt.Errorf("adding a profile of %s: %w", k.target.name, err)
		}
		used, read = used+1, read+len(k.Data)
	}
	if b.Total() == 0 {
		return nil, errNoSamples
	}
	f := &flame{about: newFlameAbout(entries[len(entries)-used:], s)}
	f.about.Of = len(entries)
	var err error
	f.data, err = compress(treeAnswer{f.about, b.Tree(trie.Options{})})
	return f, err
}

func newFlameAbout(used []*kept, s selection) flameAbout {
	about := flameAbout{
		Target: targetName(used, s.target), Process: processName(s), Used: len(used),
		From: time.UnixMilli(used[0].start), To: time.UnixMilli(used[len(used)-1].end),
	}
	for _, k := range used {
		samples, _, _ := k.of(s)
		about.Samples += samples
	}
	return about
}

// compress returns JSON, compressed.
func compress(answer any) ([]byte, error) {
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	if err := json.NewEncoder(w).Encode(answer); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// flame returns the flame graph of a selection.
func (p *Page) flame(r *http.Request, s selection) (*flame, error) {
	return p.flames.get(r.Context(), s, func() (*flame, error) {
		picked := p.pick(s)
		if len(picked) == 0 {
			return nil, errGone
		}
		return newFlame(picked, s)
	})
}

// flamePage is what the template of the flame graph's page shows.
type flamePage struct {
	flameAbout
	Name                            string
	Overview, Tree, Pprof, Download string // relative links
	Top                             string
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
		status, message := explainFailure(err)
		p.fail(w, "./", status, message)
		return
	}
	pprof := "./ui/" + s.String()
	p.render(w, http.StatusOK, "flame.html", flamePage{
		flameAbout: f.about, Name: p.options.Name,
		Overview: "./?" + url.Values{"target": {s.target}}.Encode(), Tree: "./api/tree?" + s.values().Encode(),
		Pprof: pprof + "/flamegraph", Top: pprof + "/top", Download: pprof + "/download",
	})
}

// serveTree answers with the data of a flame graph.
func (p *Page) serveTree(w http.ResponseWriter, r *http.Request) {
	s, err := p.treeSelection(r.URL.Query())
	if err != nil {
		failJSON(w, http.StatusBadRequest, err.Error())
		return
	}
	f, err := p.flame(r, s)
	if err != nil {
		status, message := explainFailure(err)
		failJSON(w, status, message)
		return
	}
	sendJSON(w, r, f.data)
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
	return q.resolve(p.history.all()), nil
}

// explainFailure says to visitors why there is no view.
func explainFailure(err error) (status int, message string) {
	switch {
	case errors.Is(err, errGone):
		return http.StatusGone, "These profiles are no longer kept."
	case errors.Is(err, errNoSamples):
		return http.StatusNotFound, "There are no samples of this process in these profiles."
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
