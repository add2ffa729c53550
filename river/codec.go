package river

import (
	"sync"

	"github.com/grafana/river/ast"
	"github.com/grafana/river/encoding/riverjson"
	"github.com/grafana/river/vm"
)

// codecMu is held while River's library turns text into Go values or these into
// JSON. What it finds out about a Go type it keeps in a map of its own that has no
// lock, so two of these at the same time can end the process ("concurrent map
// writes").
var codecMu sync.Mutex

// decodeBody evaluates body in scope and stores the result in the struct that
// into points to.
func decodeBody(body ast.Body, scope *vm.Scope, into interface{}) error {
	codecMu.Lock()
	defer codecMu.Unlock()
	return vm.New(body).Evaluate(scope, into)
}

// marshalBody returns a struct with River tags, or a map, in River's JSON. It
// panics on anything else.
func marshalBody(value interface{}) ([]byte, error) {
	codecMu.Lock()
	defer codecMu.Unlock()
	return riverjson.MarshalBody(value)
}
