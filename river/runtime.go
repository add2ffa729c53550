// Package river is the flow runtime: it reads a configuration in Grafana's River
// language, builds the components that it names, joins them by their exports,
// runs them, and changes them while they run when the configuration changes.
//
// The way of a configuration:
//
//	source       text, parsed to blocks
//	graph        blocks as nodes, references as edges; cycles found
//	node_*       a node decodes its block in the scope of what it refers to,
//	             builds its component the first time and updates it later
//	scheduler    runs the components that were built
//	queue        takes up changed exports, to evaluate those that refer to them
//	info, http   what people and other programs see of it
package river

import (
	"context"
	goruntime "runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-kit/log"
	"github.com/go-kit/log/level"
	"github.com/grafana/river/diag"
	"github.com/grafana/river/vm"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/headwater/headwater/component"
)

// Options configures a Runtime.
type Options struct {
	// Registry holds the components that a configuration may name.
	Registry component.Registry

	// Logger takes the runtime's and the components' lines, and is configured by
	// the logging block. Required.
	Logger *Logger

	// DataPath is the folder in which each component gets one of its own.
	DataPath string

	// Registerer takes the metrics of the runtime and, while they are loaded, of
	// its components. Nil means none.
	Registerer prometheus.Registerer

	// StopTimeout is how long stopping components may take to finish their work.
	// Zero means 15 seconds.
	StopTimeout time.Duration
}

// Runtime holds one configuration and runs its components.
type Runtime struct {
	options     Options
	logger      log.Logger
	standard    *vm.Scope
	loggingNode *loggingNode
	metrics     *runtimeMetrics
	scheduler   *scheduler

	changes  *changedNodes    // components with new exports
	queue    *evaluationQueue // nodes to evaluate because of them
	schedule chan struct{}    // token: the scheduler has something to do
	restart  atomic.Bool      // with the next token, restart what has exited

	// loadMu is held while a configuration is loaded, and while dependants are
	// looked up: a change of exports in the midst of a load must meet the new
	// graph, not the old one.
	loadMu sync.Mutex
	graph  atomic.Pointer[graph] // the configuration in force
	loaded atomic.Bool           // a configuration has been in force
}

// New returns a runtime with an empty configuration. It starts nothing.
func New(options Options) *Runtime {
	if options.StopTimeout == 0 {
		options.StopTimeout = 15 * time.Second
	}
	standard := standardScope()
	r := &Runtime{
		options:     options,
		logger:      options.Logger,
		standard:    standard,
		loggingNode: &loggingNode{logger: options.Logger, standard: standard},
		scheduler:   newScheduler(options.Logger),
		changes:     newChangedNodes(),
		queue:       newEvaluationQueue(),
		schedule:    make(chan struct{}, 1),
	}
	r.graph.Store(newGraph(standard))
	r.metrics = newRuntimeMetrics(r)
	if options.Registerer != nil {
		options.Registerer.MustRegister(r.metrics)
	}
	return r
}

// Ready reports whether a configuration is in force.
func (r *Runtime) Ready() bool { return r.loaded.Load() }

// LoadPath reads the file or folder at path and loads it.
func (r *Runtime) LoadPath(path string) error {
	source, err := ReadSource(path)
	if err == nil {
		err = r.Load(source)
	}
	r.metrics.loadDone(source, err)
	return err
}

// Load puts a configuration in force. Blocks that were there before keep their
// component. Components start and stop only while Run runs.
//
// All errors are *LoadErrors. If the source cannot be made a graph, nothing
// changes. If blocks cannot be evaluated, a first configuration is refused as a
// whole, while a later one is applied: those blocks keep their last arguments
// and become unhealthy.
func (r *Runtime) Load(source *Source) error {
	defer wake(r.changes.signal) // after the lock is free: changes have waited for it
	r.loadMu.Lock()
	defer r.loadMu.Unlock()

	next, diags := r.buildGraph(source, r.graph.Load())
	if len(diags) > 0 {
		return &LoadError{Diagnostics: diags, files: source.files}
	}
	diags = r.evaluateAll(next)
	if len(diags) > 0 && !r.Ready() {
		return &LoadError{Diagnostics: diags, files: source.files}
	}
	r.graph.Store(next)
	r.loaded.Store(true)
	r.restart.Store(true)
	r.requestSchedule()
	if len(diags) > 0 {
		return &LoadError{Diagnostics: diags, Applied: true, files: source.files}
	}
	return nil
}

// evaluateAll evaluates all nodes of g, each after those that it refers to.
func (r *Runtime) evaluateAll(g *graph) diag.Diagnostics {
	started := time.Now()
	var diags diag.Diagnostics
	for _, n := range g.order() {
		n.configure(g.blocks[n], g.dependencies[n])
		err := r.evaluate(n)
		if err == nil {
			continue
		}
		diags = append(diags, evaluationDiagnostics(g.blocks[n], failureOf(n), err)...)
		if r.Ready() { // before, the caller prints the diagnostics and gives up
			r.logFailure(n, err)
		}
	}
	level.Debug(r.logger).Log("msg", "evaluated the whole configuration", "blocks", len(g.nodes), "duration", time.Since(started))
	sortDiagnostics(diags)
	return diags
}

func failureOf(n node) string {
	if _, ok := n.(*componentNode); ok {
		return "Failed to build component"
	}
	return "Failed to evaluate node for config block"
}

// evaluate evaluates one node, with metrics.
func (r *Runtime) evaluate(n node) error {
	done := r.metrics.evaluation(n.id())
	err := n.evaluate()
	duration := done()
	if err == nil {
		level.Debug(r.logger).Log("msg", "finished node evaluation", "node", n.id(), "duration", duration)
	}
	return err
}

func (r *Runtime) logFailure(n node, err error) {
	level.Error(r.logger).Log("msg", "failed to evaluate config", "node", n.id(), "err", err)
}

// Run runs components and keeps them up to date until ctx is done. Then it stops
// them, users before what they use, and returns when they have ended or
// StopTimeout is over. It must be called at most once.
func (r *Runtime) Run(ctx context.Context) {
	var workers sync.WaitGroup
	for range goruntime.GOMAXPROCS(0) {
		workers.Go(r.work)
	}
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-r.schedule:
			restart := r.restart.Swap(false)
			r.scheduler.synchronize(r.graph.Load().components(), restart)
		case <-r.changes.signal:
			r.queueDependants()
		}
	}
	r.queue.close()
	r.scheduler.close(r.options.StopTimeout)
	workers.Wait()
}

// requestSchedule lets Run bring the running components in line with the graph.
func (r *Runtime) requestSchedule() { wake(r.schedule) }

// queueDependants puts the direct dependants of all changed nodes in the queue.
// While a configuration is loaded it leaves them; Load gives the signal again.
func (r *Runtime) queueDependants() {
	if !r.loadMu.TryLock() {
		return
	}
	defer r.loadMu.Unlock()
	g := r.graph.Load()
	for _, changed := range r.changes.take() {
		for _, dependant := range g.dependants[changed] {
			r.queue.put(dependant)
		}
	}
}

// work evaluates queued nodes until the queue is closed. If that changes their
// exports, they come back as changes, so that changes spread breadth first.
func (r *Runtime) work() {
	for {
		n, waited, ok := r.queue.take()
		if !ok {
			return
		}
		r.metrics.waited(waited)
		if err := r.evaluate(n); err != nil {
			r.logFailure(n, err)
		}
		r.queue.done(n)
	}
}
