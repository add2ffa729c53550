// Package river is the flow runtime: it reads a configuration in Grafana's River
// language, builds the components that it names, joins them by their exports,
// runs them, and changes them while they run when the configuration changes.
//
// The way of a configuration:
//
//	source       text, parsed to blocks (internal/source)
//	module       one loaded configuration: the root, or the inside of a custom
//	             component (declare, import.*) or of a module.* block
//	graph        blocks as nodes, references as edges (internal/dag); cycles found
//	node_*       a node decodes its block in the scope of what it refers to,
//	             builds its component the first time and updates it later
//	scheduler    runs the components that were built
//	queue        holds nodes to evaluate because what they refer to has changed
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
	// its components. Nil means that there are no metrics.
	Registerer prometheus.Registerer

	// StopTimeout is how long stopping components may take to finish their work.
	// Zero means 15 seconds.
	StopTimeout time.Duration
}

// Runtime holds one configuration and runs its components.
type Runtime struct {
	options  Options
	logger   log.Logger
	standard *vm.Scope
	metrics  *runtimeMetrics
	queue    *evaluationQueue // nodes of all modules to evaluate because of new exports
	settings []*settingNode   // the blocks that configure the runtime itself
	http     atomic.Pointer[httpSettings]
	tracing  *tracing
	root     *module
}

// New returns a runtime with an empty configuration. It starts nothing.
func New(options Options) *Runtime {
	if options.StopTimeout == 0 {
		options.StopTimeout = 15 * time.Second
	}
	r := &Runtime{
		options:  options,
		logger:   options.Logger,
		standard: standardScope(),
		queue:    newEvaluationQueue(),
		tracing:  newTracing(options.Logger),
	}
	r.http.Store(&httpSettings{})
	r.settings = []*settingNode{newLoggingNode(r), newHTTPNode(r), newTracingNode(r), newLiveDebuggingNode(r)}
	r.root = newModule(r, "", nil, nil)
	r.metrics = newRuntimeMetrics(r)
	if options.Registerer != nil {
		options.Registerer.MustRegister(r.metrics)
	}
	return r
}

// Ready reports whether a configuration was loaded.
func (r *Runtime) Ready() bool { return r.root.loaded.Load() }

// LoadPath reads the file or folder at path and loads it.
func (r *Runtime) LoadPath(path string) error {
	source, err := ReadSource(path)
	if err == nil {
		err = r.Load(source)
	}
	r.metrics.loadDone(source, err)
	return err
}

// Load makes source the current configuration. Blocks that were there before keep
// their component. Components start and stop only while Run runs.
//
// All errors are *LoadErrors. If the source cannot be made a graph, nothing
// changes. If blocks cannot be evaluated, a first configuration is refused as a
// whole, while a later one is applied: those blocks keep their last arguments
// and become unhealthy.
func (r *Runtime) Load(source *Source) error { return r.root.load(source, nil, nil) }

// evaluate evaluates one node, with metrics and a span.
func (r *Runtime) evaluate(ctx context.Context, n node) error {
	done := r.metrics.evaluation(n.id())
	end := r.startEvaluation(ctx, n)
	err := n.evaluate()
	end(err)
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
	components, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer context.AfterFunc(ctx, func() {
		r.tracing.close() // while those who take the last spans are still there
		stop()
	})()
	r.root.run(components)
	r.queue.close()
	workers.Wait()
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
		if err := r.evaluate(context.Background(), n); err != nil {
			r.logFailure(n, err)
		}
		r.queue.done(n)
	}
}
