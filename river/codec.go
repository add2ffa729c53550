package river

import (
	"sync"

	"github.com/grafana/river/ast"
	"github.com/grafana/river/encoding/riverjson"
	"github.com/grafana/river/vm"

	"github.com/headwater/headwater/component/common/config"
)

// codecMu is held while River's library turns text into Go values, or Go values into
// JSON. The library caches what it learns about a Go type in a map without a lock, so
// two calls at the same time can end the process ("concurrent map writes").
var codecMu sync.Mutex

// decodeBody evaluates body in scope and stores the result in the struct that
// into points to. The error says all that is wrong with body, see evaluationDiagnostics.
func decodeBody(body ast.Body, scope *vm.Scope, into interface{}) error {
	codecMu.Lock()
	defer codecMu.Unlock()
	err := vm.New(body).Evaluate(scope, into)
	if err == nil {
		return nil
	}
	return withOthers(err, body, scope, into)
}

// marshalBody returns a struct with River tags, or a map, in River's JSON, without the
// passwords of URLs. It panics on anything else.
func marshalBody(value interface{}) ([]byte, error) {
	codecMu.Lock()
	defer codecMu.Unlock()
	body, err := riverjson.MarshalBody(value)
	return config.HidePasswords(body), err
}
