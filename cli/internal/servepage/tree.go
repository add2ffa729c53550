package servepage

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	"github.com/google/pprof/profile"

	"github.com/headwater/headwater/flame/tree"
)

// maxNodes is the largest number of nodes in a request.
const maxNodes = 100_000

// treeOptions select a part of a flame graph.
type treeOptions struct {
	tree.Options
	below bool // only the subtree of root
	root  tree.PathID
}

// parseTreeOptions reads the parameters root, the node whose subtree is requested, and max, the maximum number of
// nodes.
func parseTreeOptions(v url.Values) (o treeOptions, err error) {
	if text := v.Get("root"); text != "" {
		o.below = true
		if o.root, err = tree.ParsePathID(text); err != nil {
			return o, fmt.Errorf("root: %w", err)
		}
	}
	if text := v.Get("max"); text != "" {
		if o.MaxNodes, err = strconv.Atoi(text); err != nil || o.MaxNodes < 1 || o.MaxNodes > maxNodes {
			return o, fmt.Errorf("max %.40q is no number from 1 to %d", text, maxNodes)
		}
		o.Enough = o.MaxNodes
	}
	return o, nil
}

// errNoNode says that a file has no such node: it may have changed.
var errNoNode = errors.New("there is no such node in this file")

// serveTree answers with the data of a flame graph.
func (h *Handler) serveTree(w http.ResponseWriter, r *http.Request) {
	i, ok := h.number(w, r)
	if !ok {
		return
	}
	o, err := parseTreeOptions(r.URL.Query())
	if err != nil {
		failJSON(w, http.StatusBadRequest, err)
		return
	}
	p, err := h.readProfile(r.Context(), i)
	var tree *tree.Tree
	if err == nil {
		tree, err = treeOf(p, o)
	}
	switch {
	case err != nil:
		failJSON(w, http.StatusInternalServerError, err)
	case tree == nil:
		failJSON(w, http.StatusNotFound, errNoNode)
	default:
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(tree) // the client may be gone
	}
}

// treeOf returns the flame graph of a profile, or the selected part; nil if there is no such part.
func treeOf(p *profile.Profile, o treeOptions) (*tree.Tree, error) {
	f, err := tree.Fold(p, nil)
	if err != nil {
		return nil, err
	}
	m := tree.NewMerge()
	if _, err := m.Add(f, tree.Choice{}); err != nil {
		return nil, err
	}
	if o.below {
		return m.TreeBelow(o.root, o.Options), nil
	}
	return m.Tree(o.Options), nil
}

// failJSON answers with an error message.
func failJSON(w http.ResponseWriter, status int, err error) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]string{"error": err.Error()}) // the client may be gone
}
