package servepage

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	"github.com/headwater/headwater/ebpf/trie"
)

// maxNodes is the most that a request may ask for.
const maxNodes = 100_000

// treeOptions says which part of a flame graph is asked for.
type treeOptions struct {
	trie.Options
	below bool // the subtree of root alone
	root  trie.PathID
}

// parseTreeOptions reads the parameters root, the node whose subtree is wanted, and max, how many nodes it may have.
func parseTreeOptions(v url.Values) (o treeOptions, err error) {
	if text := v.Get("root"); text != "" {
		o.below = true
		if o.root, err = trie.ParsePathID(text); err != nil {
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

// tree answers with the data of a flame graph.
func (h *Handler) tree(w http.ResponseWriter, r *http.Request) {
	i, ok := h.number(w, r)
	if !ok {
		return
	}
	o, err := parseTreeOptions(r.URL.Query())
	if err != nil {
		failJSON(w, http.StatusBadRequest, err)
		return
	}
	p, err := h.read(r.Context(), i)
	b := trie.NewBuilder(nil)
	if err == nil {
		err = b.Add(p)
	}
	if err != nil {
		failJSON(w, http.StatusInternalServerError, err)
		return
	}
	if o.below {
		if b = b.Below(o.root); b.Total() == 0 {
			failJSON(w, http.StatusNotFound, errNoNode)
			return
		}
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(b.Tree(o.Options)) // the client may be gone
}

// failJSON says why there is no data.
func failJSON(w http.ResponseWriter, status int, err error) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]string{"error": err.Error()}) // the client may be gone
}
