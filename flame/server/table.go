package server

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/headwater/headwater/flame/tree"
)

// Limits of the list of functions.
const (
	defaultTop = 100
	maxTop     = 10_000
)

// topAnswer is the answer of api/top. Values are in Unit.
type topAnswer struct {
	flameAbout
	Unit      string          `json:"unit"`
	Total     int64           `json:"total"`
	Found     *int64          `json:"found,omitempty"` // value of the samples with a function that matches the search
	Count     int             `json:"count"`           // of functions, including unlisted ones
	Functions []tree.Function `json:"functions"`
}

// topOrders are the orders of api/top. Self is the default.
func topOrders() map[string]func(a, b tree.Function) int {
	down := func(a, b int64) int { return cmp.Compare(b, a) }
	return map[string]func(a, b tree.Function) int{
		"self":   func(a, b tree.Function) int { return cmp.Or(down(a.Self, b.Self), down(a.Total, b.Total)) },
		"total":  func(a, b tree.Function) int { return cmp.Or(down(a.Total, b.Total), down(a.Self, b.Self)) },
		"name":   func(a, b tree.Function) int { return cmp.Compare(a.Name, b.Name) },
		"binary": func(a, b tree.Function) int { return cmp.Or(cmp.Compare(a.Binary, b.Binary), down(a.Self, b.Self)) },
	}
}

// serveTop answers with the functions of a selection.
func (p *Page) serveTop(w http.ResponseWriter, r *http.Request) {
	v := r.URL.Query()
	by := v.Get("sort")
	if by == "" {
		by = "self"
	}
	less, ok := topOrders()[by]
	if !ok {
		failJSON(w, http.StatusBadRequest, fmt.Sprintf("sort %.40q is none of self, total, name, binary", by))
		return
	}
	limit, err := intParameter(v, "limit", maxTop)
	if err != nil {
		failJSON(w, http.StatusBadRequest, err.Error())
		return
	}
	if limit == 0 {
		limit = defaultTop
	}
	search := v.Get("search")
	if len(search) > maxPattern {
		failJSON(w, http.StatusBadRequest, fmt.Sprintf("search has %d bytes, more than %d", len(search), maxPattern))
		return
	}
	p.serveAnswer(w, r, func(entries []*kept, s selection) (*answer, error) {
		return p.newTop(entries, s, search, less, limit)
	}, "sort", "limit", "search")
}

// newTop adds up the functions of all profiles. It needs no limit on nodes, because it keeps no stacks.
func (p *Page) newTop(entries []*kept, s selection, search string, less func(a, b tree.Function) int, limit int) (
	*answer, error) {
	m := p.makers.takeMaker()
	defer p.makers.giveBack(m)
	sums := m.sums
	if search != "" {
		sums.Search(search)
	}
	about, total, err := p.readProfiles(entries, s, anyOf, sums.Add)
	if err != nil {
		return nil, err
	}
	functions := sums.Functions()
	slices.SortFunc(functions, func(x, y tree.Function) int {
		return cmp.Or(less(x, y), cmp.Compare(x.Name, y.Name), cmp.Compare(x.Binary, y.Binary))
	})
	top := topAnswer{flameAbout: about, Unit: sums.Unit(), Total: total, Count: len(functions)}
	if search != "" {
		found := sums.Found()
		top.Found = &found
	}
	if top.Functions, _ = cutList(functions, limit); top.Functions == nil {
		top.Functions = []tree.Function{} // [] in JSON
	}
	data, err := compress(top)
	return &answer{about, data}, err
}

// sandwichAnswer is the answer of api/sandwich: the callers and the callees of a function.
type sandwichAnswer struct {
	flameAbout
	Function string     `json:"function"`
	Unit     string     `json:"unit"`
	All      int64      `json:"all"`     // value of all samples of the selection
	Total    int64      `json:"total"`   // value of the samples with the function
	Callers  *tree.Tree `json:"callers"` // the function, with its callers below
	Callees  *tree.Tree `json:"callees"` // the function, with its callees below
}

// errNoFunction says that a selection has no such function.
var errNoFunction = errors.New("there is no such function in these profiles")

// serveSandwich answers with the callers and the callees of a function.
func (p *Page) serveSandwich(w http.ResponseWriter, r *http.Request) {
	p.serveFunction(w, r, p.newSandwich)
}

// serveFunction answers with the result of build for a function.
func (p *Page) serveFunction(w http.ResponseWriter, r *http.Request,
	build func(entries []*kept, s selection, function, binary string) (*answer, error)) {
	function, binary := r.URL.Query().Get("function"), r.URL.Query().Get("binary")
	if strings.TrimSpace(function) == "" {
		failJSON(w, http.StatusBadRequest, "the parameter function is missing: pass a name as shown")
		return
	}
	p.serveAnswer(w, r, func(entries []*kept, s selection) (*answer, error) {
		return build(entries, s, function, binary)
	}, "function", "binary")
}

func (p *Page) newSandwich(entries []*kept, s selection, function, binary string) (*answer, error) {
	callers, callees := tree.NewCallers(nil, function, binary), tree.NewCallees(nil, function, binary)
	small := withinBytes()
	about, all, err := p.readProfiles(entries, s, func(k *kept) bool {
		return small(k) && callers.Nodes()+callees.Nodes() < maxTrieNodes
	}, func(f *tree.Folded, c tree.Choice) (tree.Added, error) {
		if _, err := callers.AddFolded(f, c); err != nil {
			return tree.Added{}, err
		}
		return callees.AddFolded(f, c)
	})
	if err != nil {
		return nil, err
	}
	if callers.Total() == 0 {
		return nil, errNoFunction
	}
	data, err := compress(sandwichAnswer{
		flameAbout: about, Function: function, Unit: callers.Unit(), All: all, Total: callers.Total(),
		Callers: callers.Tree(tree.Options{}), Callees: callees.Tree(tree.Options{}),
	})
	return &answer{about, data}, err
}

// linesAnswer is the answer of api/lines: the lines of a function. Values are in Unit.
type linesAnswer struct {
	flameAbout
	Function string      `json:"function"`
	Unit     string      `json:"unit"`
	All      int64       `json:"all"`   // value of all samples of the selection
	Total    int64       `json:"total"` // value of the samples with the function
	Lines    []tree.Line `json:"lines"`
}

// serveLines answers with the lines of a function, without their text: the profile names the source file, and a program
// could name any file.
func (p *Page) serveLines(w http.ResponseWriter, r *http.Request) { p.serveFunction(w, r, p.newLines) }

func (p *Page) newLines(entries []*kept, s selection, function, binary string) (*answer, error) {
	lines := tree.NewLines(function, binary)
	about, all, err := p.readProfiles(entries, s, anyOf, lines.Add)
	if err != nil {
		return nil, err
	}
	if lines.Total() == 0 {
		return nil, errNoFunction
	}
	data, err := compress(linesAnswer{about, function, lines.Unit(), all, lines.Total(), lines.Lines()})
	return &answer{about, data}, err
}
