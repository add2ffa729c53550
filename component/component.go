// Package component is the contract between a component and the runtime that
// hosts it. It has the shape of Grafana Agent v0.40's package of the same name,
// so that a thin adapter runs the same component in both hosts.
//
// The contract in short:
//
//   - Build returns quickly and starts nothing that outlives it unless Run is
//     called: no goroutine, no file descriptor that a garbage collector would
//     not find.
//   - Run is called at most once, blocks until its context is done, and cleans
//     up before it returns. Returning earlier, with or without an error, is
//     reported as the health "exited".
//   - Update may be called at any time after Build, also while Run runs, before
//     it has started and after it has returned. It never blocks.
//   - Arguments and Exports are plain values and never modified once handed over.
//
// There is no global list of components: a host makes a Registry of the
// components that it wants.
package component

import (
	"context"
	"net/http"
)

// Arguments is the decoded configuration of a component: a value of the struct
// type that its Registration names in Args, never a pointer to one.
type Arguments interface{}

// Exports is what a component offers to others: a value of the struct type that
// its Registration names in Exports. The type never changes while it runs.
type Exports interface{}

// Component is the part that every component has.
type Component interface {
	// Run does the component's work until ctx is done, then cleans up and
	// returns nil. An error says why the component could not go on.
	Run(ctx context.Context) error

	// Update hands over new arguments. It returns an error when they cannot be
	// used; the component then keeps working with those it had.
	Update(args Arguments) error
}

// DebugComponent is a component that can describe its inner state.
type DebugComponent interface {
	Component

	// DebugInfo returns a value that River can encode, or nil. It is safe to
	// call at any time and does not block.
	DebugInfo() interface{}
}

// HealthComponent is a component that knows more about its health than whether
// it runs and whether its last arguments were accepted.
type HealthComponent interface {
	Component

	// CurrentHealth is safe to call at any time and does not block.
	CurrentHealth() Health
}

// HTTPComponent is a component that answers HTTP requests of its own.
type HTTPComponent interface {
	Component

	// Handler serves requests below /api/v0/component/ID/, with that prefix
	// removed from the request's path. Requests may come before Run and after
	// it. Nil means that there is nothing to serve.
	Handler() http.Handler
}
