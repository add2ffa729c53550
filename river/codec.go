package river

import (
	"sync"

	"github.com/grafana/river/ast"
	"github.com/grafana/river/encoding/riverjson"
	"github.com/grafana/river/vm"

	"github.com/headwater/headwater/component/common/config"
)

// codecMu is held while River's library decodes text into Go values, or encodes Go values as JSON.
// The library caches information about Go types in a map without a lock, so two concurrent calls
// can crash the process ("concurrent map writes").
var codecMu sync.Mutex

// decodeBody evaluates body in scope and stores the result in the struct that into points to. The
// error contains all problems of body, see evaluationDiagnostics.
func decodeBody(body ast.Body, scope *vm.Scope, into interface{}) error {
	codecMu.Lock()
	defer codecMu.Unlock()
	err := vm.New(body).Evaluate(scope, into)
	if err == nil {
		return nil
	}
	return withOthers(err, body, scope, into)
}

// marshalBody returns the River JSON of a struct with River tags, or of a map. It removes the
// passwords of URLs. It panics on other values.
func marshalBody(value interface{}) ([]byte, error) {
	codecMu.Lock()
	defer codecMu.Unlock()
	body, err := riverjson.MarshalBody(value)
	return config.HidePasswords(body), err
}
