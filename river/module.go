package river

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-kit/log/level"
	"github.com/grafana/river/ast"
	"github.com/grafana/river/diag"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/headwater/headwater/river/internal/source"
)

// module is one loaded configuration: the user's configuration, or the content of a custom
// component or of a module.* block. Modules nest, and all modules share the runtime's workers,
// logger and metrics.
type module struct {
	r  *Runtime
	id string // "" for the user's configuration, else the global ID of the block that contains the module

	parent    *module
	body      ast.Body                     // body of the definition, to detect a module that contains itself
	onExports func(exports map[string]any) // receives new values of export blocks; does not block

	scheduler *scheduler
	changes   *changedNodes // nodes with new exports
	schedule  chan struct{} // token: the scheduler has work to do
	restart   atomic.Bool   // with the next token, restart components that exited

	// loadMu is held during a load, and during the lookup of dependants: a change of exports during
	// a load must use the new graph, not the old one.
	loadMu  sync.Mutex
	graph   atomic.Pointer[graph] // current configuration
	loaded  atomic.Bool           // whether a configuration was loaded
	exports map[string]any        // last value passed to onExports; guarded by loadMu
}

func newModule(r *Runtime, id string, parent *module, onExports func(map[string]any)) *module {
	m := &module{
		r:         r,
		id:        id,
		parent:    parent,
		onExports: onExports,
		scheduler: newScheduler(r.options.Logger),
		changes:   newChangedNodes(),
		schedule:  make(chan struct{}, 1),
	}
	m.graph.Store(newGraph(m, &Source{}, nil, nil))
	return m
}

// globalID returns the ID of a block of the module. It is unique in the process.
func (m *module) globalID(localID string) string { return path.Join(m.id, localID) }

// newContent returns the reader of the text of an import.* or module.* block. making is the word
// for the creation of its component in errors. With folders, the block may name a folder.
func (m *module) newContent(kind, globalID, making string, folders bool) (*source.Content, error) {
	return source.NewContent(source.ContentOptions{
		Kind:     kind,
		ID:       globalID,
		Making:   making,
		Registry: m.r.options.Registry,
		Logger:   m.r.options.Logger,
		DataPath: m.r.options.DataPath,
		Tracer:   m.r.tracing,
		Offline:  m.r.options.Offline,
		Folders:  folders,
	})
}

// MaxDepth bounds the nesting of modules. Real configurations have fewer levels. Without it, a
// module.file block that loads its own file would nest endlessly.
const MaxDepth = 16

// checkNesting returns an error if a module with this body inside m's block would contain itself
// endlessly.
func (m *module) checkNesting(body ast.Body) error {
	depth := 0
	for outer := m; outer != nil; outer = outer.parent {
		if depth++; depth > MaxDepth {
			return fmt.Errorf("modules are nested more than %d levels deep; does one load itself?", MaxDepth)
		}
		if len(body) > 0 && len(outer.body) > 0 && &body[0] == &outer.body[0] {
			return errors.New("the component's declare block uses the component itself")
		}
	}
	return nil
}

// loadText makes a text the current configuration, with values for its argument blocks and with the
// definitions of the enclosing configuration. See Runtime.Load.
func (m *module) loadText(text *Source, arguments map[string]any, outer *definitions) error {
	defer wakeUp(m.changes.signal) // after the lock is released, because changes waited for it
	m.loadMu.Lock()
	defer m.loadMu.Unlock()

	next, diags := m.buildGraph(text, arguments, outer)
	if len(diags) > 0 {
		return &LoadError{Diagnostics: diags, Files: text.Files}
	}
	diags, files := m.evaluateAll(next)
	if len(diags) > 0 && !m.loaded.Load() {
		return &LoadError{Diagnostics: diags, Files: files}
	}
	m.logLeftOut(next)
	m.graph.Store(next)
	m.loaded.Store(true)
	m.publishExports()
	m.restart.Store(true)
	m.requestSchedule()
	if len(diags) > 0 {
		return &LoadError{Diagnostics: diags, Applied: true, Files: files}
	}
	return nil
}

// evaluateAll evaluates all nodes of g, each after the nodes that it refers to. It returns the
// diagnostics and the texts that they refer to.
func (m *module) evaluateAll(g *graph) (diag.Diagnostics, map[string][]byte) {
	started := time.Now()
	ctx, span := m.r.tracing.Tracer("").Start(context.Background(), "GraphEvaluate",
		trace.WithAttributes(attribute.String("controller_id", m.id)))
	defer span.End()
	var diags diag.Diagnostics
	files := g.source.Files
	for _, n := range g.Order() {
		n.configure(g)
		err := m.r.evaluate(ctx, n)
		if err == nil {
			continue
		}
		diags = append(diags, evaluationDiagnostics(g.blocks[n], failureOf(n), err)...)
		files = withFilesOf(files, err)
		if m.loaded.Load() { // during the first load, the caller prints the diagnostics and exits
			m.r.logFailure(n, err)
		}
	}
	level.Debug(m.r.logger).Log("msg", "evaluated a whole configuration", "module", m.id, "blocks", len(g.Nodes()),
		"duration", time.Since(started))
	sortDiagnostics(diags)
	return diags, files
}

func failureOf(n node) string {
	switch n := n.(type) {
	case instance:
		return "Failed to build component"
	case *settingNode:
		return n.failure
	default:
		return "Failed to evaluate node for config block"
	}
}

// withFilesOf adds the files of a LoadError in err to files.
func withFilesOf(files map[string][]byte, err error) map[string][]byte {
	var inner *LoadError
	if !errors.As(err, &inner) {
		return files
	}
	all := maps.Clone(inner.Files)
	if all == nil {
		all = map[string][]byte{}
	}
	maps.Copy(all, files)
	return all
}

// runComponents runs the module's components and keeps them up to date until ctx is done. Then it stops them;
// each component stops before the components that it uses.
func (m *module) runComponents(ctx context.Context) {
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-m.schedule:
			restart := m.restart.Swap(false)
			m.scheduler.synchronize(m.graph.Load().runnables(), restart)
		case <-m.changes.signal:
			m.takeChanges()
		}
	}
	m.scheduler.close(m.r.options.StopTimeout)
}

// requestSchedule requests that run starts and stops components to match the graph.
func (m *module) requestSchedule() { wakeUp(m.schedule) }

// takeChanges queues the direct dependants of all changed nodes, and publishes the values of
// changed export blocks. During a load it leaves the changes in place; load signals them again.
func (m *module) takeChanges() {
	if !m.loadMu.TryLock() {
		return
	}
	defer m.loadMu.Unlock()
	g := m.graph.Load()
	exported := false
	for _, changed := range m.changes.takeNodes() {
		if _, ok := changed.(*exportNode); ok {
			exported = true
		}
		for _, dependant := range g.Dependants(changed) {
			m.r.queue.putNode(dependant)
		}
	}
	if exported {
		m.publishExports()
	}
}

// publishExports passes the values of the export blocks to the block that contains the module, if
// they changed. loadMu must be held.
func (m *module) publishExports() {
	if m.onExports == nil {
		return
	}
	exports := map[string]any{}
	for _, n := range m.graph.Load().Nodes() {
		if e, ok := n.(*exportNode); ok {
			exports[e.label] = e.current()
		}
	}
	if m.exports == nil || !reflect.DeepEqual(m.exports, exports) {
		m.exports = exports
		m.onExports(exports)
	}
}

// walkModules calls visit for m and all modules inside it, outer modules first.
func (m *module) walkModules(visit func(*module)) {
	visit(m)
	for _, n := range m.graph.Load().instances() {
		if inner := n.module(); inner != nil {
			inner.walkModules(visit)
		}
	}
}
