package river

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"reflect"

	"github.com/go-kit/log"
	"github.com/go-kit/log/level"
	"github.com/grafana/river/ast"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"

	"github.com/headwater/headwater/component"
	"github.com/headwater/headwater/river/internal/source"
)

// componentNode builds, updates and runs the component of one block.
type componentNode struct {
	blockNode
	registration component.Registration
	logger       log.Logger
	tracer       trace.TracerProvider
	dataPath     string
	onExports    func(n node) // called after the exports changed; does not block
	onBuilt      func()       // called when the component is ready to run; does not block

	// These are guarded by blockNode.mu.
	managed component.Component // nil until the first successful Build
	metrics *prometheus.Registry
	args    component.Arguments
	exports component.Exports
}

func newComponentNode(m *module, registration component.Registration, block *ast.BlockStmt) *componentNode {
	id := m.globalID(source.BlockID(block))
	return &componentNode{
		blockNode:    newBlockNode(m, block),
		registration: registration,
		logger:       log.With(m.r.options.Logger, "component", id),
		tracer:       m.r.tracing,
		dataPath:     filepath.Join(m.r.options.DataPath, id),
		onExports:    m.changes.putNode,
		onBuilt:      m.requestSchedule,
		args:         registration.Args,
		exports:      registration.Exports,
	}
}

func (n *componentNode) exported() interface{} {
	n.mu.RLock()
	defer n.mu.RUnlock()
	if n.exports == nil {
		return map[string]interface{}{}
	}
	return n.exports
}

// evaluate decodes the block in the scope of its dependencies' exports. It builds the component the
// first time, and later updates it if the arguments changed. After an error the component keeps its
// previous arguments.
func (n *componentNode) evaluate() error {
	n.evalMu.Lock()
	defer n.evalMu.Unlock()

	err := n.lookOffline(protect(n.evaluateLocked))
	n.evaluated(err)
	logPanic(n.logger, "component panicked while it was evaluated", err)
	return err
}

func (n *componentNode) evaluateLocked() error {
	pointer := n.registration.NewArguments()
	if err := n.decode(n.block.Body, pointer); err != nil {
		return err
	}
	args := reflect.ValueOf(pointer).Elem().Interface()

	if n.offline && n.registration.Asks != "" {
		return &source.UnseenError{Reason: "asks " + n.registration.Asks}
	}
	managed := n.component()
	if managed == nil {
		return n.build(args)
	}
	if reflect.DeepEqual(n.arguments(), args) {
		return nil
	}
	if err := managed.Update(args); err != nil {
		return fmt.Errorf("updating component: %w", err)
	}
	n.mu.Lock()
	n.args = args
	n.mu.Unlock()
	return nil
}

// build builds the component. Every attempt has its own registry, because a failed attempt may have
// registered metrics.
func (n *componentNode) build(args component.Arguments) error {
	metrics := prometheus.NewRegistry()
	managed, err := n.registration.Build(component.Options{
		ID:            n.globalID,
		Logger:        n.logger,
		DataPath:      n.dataPath,
		OnStateChange: n.setExports,
		Registerer:    prometheus.WrapRegistererWith(prometheus.Labels{"component_id": n.globalID}, metrics),
		Tracer:        n.tracer,
	}, args)
	if err != nil {
		return fmt.Errorf("building component: %w", err)
	}
	if managed == nil {
		return errors.New("building component: Build returned nothing")
	}
	n.mu.Lock()
	n.managed, n.metrics, n.args = managed, metrics, args
	n.mu.Unlock()
	n.onBuilt()
	return nil
}

// setExports is the component's OnStateChange callback.
func (n *componentNode) setExports(e component.Exports) {
	want, got := reflect.TypeOf(n.registration.Exports), reflect.TypeOf(e)
	if want == nil || want != got {
		level.Error(n.logger).Log("msg", "component exported a value of the wrong type; ignored", "want", fmt.Sprint(want),
			"got", fmt.Sprint(got))
		return
	}
	n.mu.Lock()
	changed := !reflect.DeepEqual(n.exports, e)
	n.exports = e
	n.mu.Unlock()
	if changed {
		n.onExports(n)
	}
}

// runComponent runs the component until it ends. A panic ends it like an error.
func (n *componentNode) runComponent(ctx context.Context) {
	managed := n.component()
	if managed == nil {
		return
	}
	n.started()
	err := protect(func() error { return managed.Run(ctx) })
	switch {
	case err != nil:
		level.Error(n.logger).Log("msg", "component exited with error", "err", err)
		logPanic(n.logger, "component panicked while it ran", err)
	case ctx.Err() == nil:
		level.Warn(n.logger).Log("msg", "component exited on its own; it is started again at the next reload")
	default:
		level.Debug(n.logger).Log("msg", "component stopped")
	}
	n.exited(err)
}

func (n *componentNode) name() string    { return n.registration.Name }
func (n *componentNode) built() bool     { return n.component() != nil }
func (n *componentNode) module() *module { return nil }

func (n *componentNode) component() component.Component {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return n.managed
}

func (n *componentNode) arguments() interface{} {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return n.args
}

// collect sends the component's metrics.
func (n *componentNode) collect(ch chan<- prometheus.Metric) {
	n.mu.RLock()
	metrics := n.metrics
	n.mu.RUnlock()
	if metrics != nil {
		metrics.Collect(ch)
	}
}

// debugInfo returns the component's debug info, or nil.
func (n *componentNode) debugInfo() (info interface{}) {
	debugger, ok := n.component().(component.DebugComponent)
	if !ok {
		return nil
	}
	if err := protect(func() error { info = debugger.DebugInfo(); return nil }); err != nil {
		logPanic(n.logger, "component panicked in DebugInfo", err)
		return nil
	}
	return info
}

// handler returns the component's HTTP handler, or nil.
func (n *componentNode) handler() http.Handler {
	server, ok := n.component().(component.HTTPComponent)
	if !ok {
		return nil
	}
	return server.Handler()
}

func logPanic(logger log.Logger, what string, err error) {
	var panicked *panicError
	if errors.As(err, &panicked) {
		level.Error(logger).Log("msg", what, "panic", fmt.Sprint(panicked.value), "stack", string(panicked.stack))
	}
}

func (n *componentNode) configure(g *graph) { n.setGraph(g, n) }
