// Package river is the flow runtime. It reads a configuration in Grafana's River language, builds
// the components in it, connects them through their exports, runs them, and updates the running
// components when the configuration changes.
//
// The stages of a configuration:
//
//	source       text, parsed to blocks (internal/source)
//	module       one loaded configuration: the root, or the inside of a custom
//	             component (declare, import.*) or of a module.* block
//	graph        blocks as nodes, references as edges (internal/dag); cycles found
//	node_*       a node decodes its block in the scope of its references,
//	             builds its component the first time and updates it later
//	scheduler    runs the components that were built
//	queue        nodes to evaluate because exports that they use changed
//	info, http   state for users and other programs
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

	// Logger receives the log lines of the runtime and the components, and is configured by the
	// logging block. Required.
	Logger *Logger

	// DataPath is the folder in which each component gets its own folder.
	DataPath string

	// Registerer receives the metrics of the runtime and of the loaded components. If nil, there
	// are no metrics.
	Registerer prometheus.Registerer

	// Offline says that the runtime only checks configurations, and asks no other machine: Load does
	// not build components that do, and Run must not be called. See Runtime.Findings.
	Offline bool

	// ProfilingOnly leaves out the components that have no part in profiling, see Runtime.Findings. Those are the
	// components of Alloy that Headwater does not have, and blocks that only serve them. A component that makes or
	// sends profiles and needs one of them is an error.
	ProfilingOnly bool

	// StopTimeout bounds the time that components have to finish their work when they stop. Zero
	// means DefaultStopTimeout.
	StopTimeout time.Duration
}

// DefaultStopTimeout lets a program end within 5 seconds. A component that does not end in time gets one more second,
// without the components that it sends data to.
const DefaultStopTimeout = 3500 * time.Millisecond

// Runtime holds one configuration and runs its components.
type Runtime struct {
	options  Options
	logger   log.Logger
	standard *vm.Scope
	metrics  *runtimeMetrics
	queue    *evaluationQueue // nodes of all modules to evaluate after new exports
	settings []*settingNode   // blocks that configure the runtime itself
	http     atomic.Pointer[httpSettings]
	tracing  *tracing
	root     *module
}

// New returns a runtime with an empty configuration. It does not start any components.
func New(options Options) *Runtime {
	if options.StopTimeout == 0 {
		options.StopTimeout = DefaultStopTimeout
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

// Load makes source the current configuration. Blocks that were also in the previous configuration
// keep their component. Components start and stop only during Run.
//
// All errors are *LoadErrors. If no graph can be built from the source, the runtime stays
// unchanged. If some blocks fail to evaluate, a first configuration is refused completely. A later
// configuration is applied, and the failed blocks keep their last arguments and become unhealthy.
func (r *Runtime) Load(source *Source) error { return r.root.loadText(source, nil, nil) }

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

// Run runs components and keeps them up to date until ctx is done. Then it stops them, each before
// the components that it uses, and returns when all have ended or StopTimeout has passed. It must
// be called at most once.
func (r *Runtime) Run(ctx context.Context) {
	var workers sync.WaitGroup
	for range goruntime.GOMAXPROCS(0) {
		workers.Go(r.evaluateNodes)
	}
	components, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer context.AfterFunc(ctx, func() {
		r.tracing.close() // while the components that receive the last spans still run
		stop()
	})()
	r.root.runComponents(components)
	r.queue.close()
	workers.Wait()
}

// evaluateNodes evaluates queued nodes until the queue is closed. If an evaluation changes a node's exports,
// the node becomes a new change, so changes propagate breadth first.
func (r *Runtime) evaluateNodes() {
	for {
		n, waited, ok := r.queue.takeNode()
		if !ok {
			return
		}
		r.metrics.waited(waited)
		if err := r.evaluate(context.Background(), n); err != nil {
			r.logFailure(n, err)
		}
		r.queue.markDone(n)
	}
}
