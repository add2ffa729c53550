package river

import (
	"context"
	"fmt"
	"reflect"
	"strings"

	"github.com/go-kit/log/level"
	"github.com/grafana/river/ast"

	"github.com/headwater/headwater/component"
	"github.com/headwater/headwater/river/internal/source"
)

const modulePrefix = "module."

func isModule(name string) bool {
	kind, ok := strings.CutPrefix(name, modulePrefix)
	return ok && source.IsKind(kind)
}

// moduleNode is a module.* block: it reads a text and runs it as a module.
type moduleNode struct {
	moduleHolder
	blockName string

	// These are guarded by evalMu.
	content    *source.Content
	loaded     bool
	loadedText string
	loadedArgs map[string]any

	loadHealth component.Health // guarded by mu
}

// moduleBlock is the part of module.* blocks that is the same for all sources.
type moduleBlock struct {
	Arguments map[string]any `river:"arguments,block,optional"`
}

func newModuleNode(m *module, block *ast.BlockStmt) *moduleNode {
	n := &moduleNode{
		moduleHolder: newModuleHolder(m, block),
		blockName:    block.GetBlockName(),
		loadHealth:   healthNow(component.HealthTypeUnknown, "no content yet"),
	}
	n.holdModule(func() { m.changes.putNode(n) })
	return n
}

func (n *moduleNode) configure(g *graph) { n.setGraph(g, n) }

func (n *moduleNode) evaluate() error {
	n.evalMu.Lock()
	defer n.evalMu.Unlock()
	err := n.lookOffline(protect(n.evaluateLocked))
	n.evaluated(err)
	return err
}

func (n *moduleNode) evaluateLocked() error {
	if n.content == nil {
		content, err := n.outer.newContent(strings.TrimPrefix(n.blockName, modulePrefix), n.globalID, "building", false)
		if err != nil {
			return fmt.Errorf("building component: %w", err)
		}
		n.mu.Lock()
		n.content = content
		n.mu.Unlock()
	}
	place, arguments := splitArguments(n.block.Body)
	if err := n.content.Evaluate(place, n.decode); err != nil {
		return err
	}
	var block moduleBlock
	if err := n.decode(arguments, &block); err != nil {
		return err
	}
	n.setArguments(block.Arguments)
	n.outer.requestSchedule()
	if err := n.takeContent(); err != nil {
		return fmt.Errorf("building component: %w", err)
	}
	return nil
}

// splitArguments splits the body of a module.* block into the part without arguments blocks, and
// the arguments blocks.
func splitArguments(body ast.Body) (place, arguments ast.Body) {
	for _, stmt := range body {
		if block, ok := stmt.(*ast.BlockStmt); ok && block.GetBlockName() == "arguments" {
			arguments = append(arguments, stmt)
		} else {
			place = append(place, stmt)
		}
	}
	return place, arguments
}

// takeContent loads the source's text, if the text or the arguments changed.
func (n *moduleNode) takeContent() error {
	text, args := n.content.Text(), n.moduleArguments()
	if n.loaded && text == n.loadedText && reflect.DeepEqual(args, n.loadedArgs) {
		return nil
	}
	err := n.loadText(text, args)
	kind, message := component.HealthTypeHealthy, "module content loaded"
	if err != nil {
		kind, message = component.HealthTypeUnhealthy, fmt.Sprintf("failed to load module content: %s", err)
	}
	n.loaded, n.loadedText, n.loadedArgs = err == nil, text, args
	n.mu.Lock()
	n.loadHealth = n.loadHealth.Now(kind, message)
	n.mu.Unlock()
	return err
}

func (n *moduleNode) loadText(text string, args map[string]any) error {
	if err := n.outer.checkNesting(nil); err != nil {
		return err
	}
	parsed, err := source.Parse(map[string][]byte{n.globalID: []byte(text)})
	if err != nil {
		return err
	}
	parsed.Folder = n.content.Folder()
	return n.inner.loadText(parsed, args, nil)
}

// exported returns the values of the module's export blocks, under exports.
func (n *moduleNode) exported() interface{} {
	return map[string]any{"exports": n.currentExports()}
}

// run runs the module and watches for new content until ctx is done.
func (n *moduleNode) runComponent(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	content := n.contentNow()
	n.started()

	ended := make(chan error, 1)
	go func() { ended <- protect(func() error { return content.Run(ctx) }) }()
	stopped := make(chan struct{})
	go func() { defer close(stopped); n.inner.runComponents(ctx) }()
	for {
		select {
		case <-content.Changed():
			n.contentChanged()
		case err := <-ended:
			cancel() // a module whose text cannot be watched stops, as in the Agent
			<-stopped
			if err != nil {
				level.Error(n.outer.r.logger).Log("msg", "component exited with error", "component", n.globalID, "err", err)
			}
			n.exited(err)
			return
		}
	}
}

func (n *moduleNode) contentChanged() {
	n.evalMu.Lock()
	defer n.evalMu.Unlock()
	if err := protect(n.takeContent); err != nil {
		level.Error(n.outer.r.logger).Log("msg", "new module content cannot be loaded", "component", n.globalID, "err", err)
	}
}

func (n *moduleNode) currentHealth() component.Health {
	n.mu.RLock()
	loaded, content := n.loadHealth, n.content
	n.mu.RUnlock()
	worst := component.LeastHealthy(n.blockNode.currentHealth(), loaded)
	if content == nil {
		return worst
	}
	return content.Worst(worst)
}

// contentNow returns the reader of the text, or nil before the first evaluation.
func (n *moduleNode) contentNow() *source.Content {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return n.content
}

func (n *moduleNode) name() string { return n.blockName }

func (n *moduleNode) moduleArguments() map[string]any {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return n.args
}

// arguments returns the arguments for the module. place returns the arguments for its source.
func (n *moduleNode) arguments() interface{} {
	return moduleBlock{Arguments: n.moduleArguments()}
}

// place returns the arguments for the source of the text, or nil.
func (n *moduleNode) place() interface{} {
	content := n.contentNow()
	if content == nil {
		return nil
	}
	return content.Arguments()
}

func (n *moduleNode) debugInfo() interface{} {
	content := n.contentNow()
	if content == nil {
		return nil
	}
	if debugger, ok := content.Component().(component.DebugComponent); ok {
		return debugger.DebugInfo()
	}
	return nil
}
