// Package component is the contract between a component and the runtime that
// hosts it. It has the shape of Grafana Agent v0.40's package of the same name,
// so that a thin adapter runs the same component in both hosts.
//
// The contract in short:
//
//   - Build returns quickly. Before Run is called, it starts no goroutine that outlives it, and opens
//     no file descriptor that a garbage collector would not find.
//   - Run is called at most once, blocks until its context is done, and cleans
//     up before it returns. Returning earlier, with or without an error, is
//     reported as the health "exited".
//   - Update may be called at any time after Build, also while Run runs, before
//     it has started and after it has returned. It never blocks.
//   - Arguments and Exports are plain values and never modified once handed over.
//
// There is no global list of components: each host makes a Registry of the components that it wants.
package component

import (
	"context"
	"net/http"
)

// Arguments is the decoded configuration of a component: a value (never a pointer) of the struct type that its
// Registration names in Args.
type Arguments interface{}

// Exports is a value of the struct type that the component's Registration names in Exports; other components can refer
// to it. The type never changes while the component runs.
type Exports interface{}

// Component is the interface that every component implements.
type Component interface {
	// Run does the component's work until ctx is done, then cleans up and returns nil. An error says why the component
	// cannot continue.
	Run(ctx context.Context) error

	// Update hands over new arguments. It returns an error if they cannot be used; the component then keeps working
	// with its previous arguments.
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

// HTTPComponent is a component that serves HTTP requests.
type HTTPComponent interface {
	Component

	// Handler serves requests below /api/v0/component/ID/, with that prefix removed from the request's path. Requests
	// may come before Run and after it. The component returns nil if it serves no requests.
	Handler() http.Handler
}
