package river

import (
	"context"
	"fmt"
	"maps"
	"path"
	"strings"

	"github.com/go-kit/log/level"
	"github.com/grafana/river/ast"
	"github.com/grafana/river/diag"

	"github.com/headwater/headwater/component"
	"github.com/headwater/headwater/river/internal/source"
)

const importPrefix = "import."

func isImport(name string) bool {
	kind, ok := strings.CutPrefix(name, importPrefix)
	return ok && source.IsKind(kind)
}

// importNode reads a text with declare and import blocks, or such texts of all files in a folder, and provides the
// custom components declared in it.
type importNode struct {
	blockNode
	outer    *module
	onChange func(n node) // called for new definitions; does not block

	// These are guarded by evalMu.
	content *source.Content   // also guarded by mu: the holder of either may read it
	loaded  map[string]string // the texts of the definitions, or the last texts that failed
	folder  string            // of loaded

	// These are guarded by mu. current includes the definitions of imports nested in the text.
	current   *definitions
	isReady   bool
	contentOK component.Health
	changed   chan struct{} // token: current has different imports to run
}

func newImportNode(m *module, block *ast.BlockStmt, onChange func(n node)) *importNode {
	return &importNode{
		blockNode: newBlockNode(m, block),
		outer:     m,
		onChange:  onChange,
		current:   &definitions{},
		contentOK: healthNow(component.HealthTypeUnknown, "no content yet"),
		changed:   make(chan struct{}, 1),
	}
}

// kind returns the second word of the block's name.
func (n *importNode) kind() string { return strings.TrimPrefix(n.block.GetBlockName(), importPrefix) }

func (n *importNode) exported() interface{} { return nil }

func (n *importNode) configure(g *graph) { n.setGraph(g, n) }

// definitions returns the definitions in the imported text.
func (n *importNode) definitions() *definitions {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return n.current
}

func (n *importNode) evaluate() error {
	n.evalMu.Lock()
	defer n.evalMu.Unlock()
	err := n.lookOffline(protect(n.evaluateLocked))
	n.evaluated(err)
	return err
}

func (n *importNode) evaluateLocked() error {
	if n.content == nil {
		content, err := n.outer.newContent(n.kind(), n.globalID, "creating "+n.kind(), true) // the Agent's wording
		if err != nil {
			return err
		}
		n.mu.Lock()
		n.content = content
		n.mu.Unlock()
	}
	if err := n.content.Evaluate(n.block.Body, n.decode); err != nil {
		return err
	}
	n.mu.Lock()
	n.isReady = true
	n.mu.Unlock()
	n.outer.requestSchedule()
	return n.takeContent()
}

// takeContent creates definitions from the source's text, if the text is new. If the text is
// invalid, the previous definitions stay in use. evalMu must be held.
func (n *importNode) takeContent() error {
	texts, folder := n.content.Texts(), n.importedFolder()
	if maps.Equal(n.loaded, texts) && n.folder == folder && n.contentHealth().Health == component.HealthTypeHealthy {
		return nil
	}
	next, err := n.define(texts)
	n.loaded, n.folder = texts, folder
	n.mu.Lock()
	if err != nil {
		n.contentOK = n.contentOK.Now(component.HealthTypeUnhealthy, fmt.Sprintf("imported content cannot be used: %s", err))
		n.mu.Unlock()
		return err
	}
	n.current = next
	n.contentOK = n.contentOK.Now(component.HealthTypeHealthy, "content updated")
	n.mu.Unlock()
	wakeUp(n.changed)
	n.onChange(n)
	return nil
}

// define parses texts, see source.Content.Texts, and evaluates their import blocks.
func (n *importNode) define(texts map[string]string) (*definitions, error) {
	if depth := strings.Count(n.globalID, "/"); depth > MaxDepth {
		return nil, fmt.Errorf("imports are nested more than %d levels deep; does one import itself?", MaxDepth)
	}
	files := map[string][]byte{}
	for name, text := range texts {
		files[path.Join(n.blockLabel, name)] = []byte(text)
	}
	parsed, err := source.Parse(files)
	if err != nil {
		return nil, err
	}
	defined := &definitions{
		declares: map[string]*ast.BlockStmt{},
		imports:  map[string]*importNode{},
		folder:   n.importedFolder(),
		files:    parsed.Files,
	}
	var diags diag.Diagnostics
	for _, block := range parsed.Blocks {
		switch kind := block.GetBlockName(); {
		case kind == declareName && defined.declares[block.Label] != nil:
			diags.Add(source.ErrorAt(block, "declare block redefined %s", block.Label))
		case kind == declareName:
			defined.declares[block.Label] = block
		case isImport(kind) && defined.imports[block.Label] != nil:
			diags.Add(source.ErrorAt(block, "import block redefined %s", block.Label))
		case isImport(kind):
			defined.imports[block.Label] = n.nested(block, defined.folder)
		default:
			diags.Add(source.ErrorAt(block, "only declare and import blocks are allowed in a module, got %s", kind))
		}
	}
	if len(diags) > 0 {
		return nil, &LoadError{Diagnostics: diags, Files: parsed.Files}
	}
	for _, block := range parsed.Blocks {
		inner := defined.imports[block.Label]
		if inner == nil || block.GetBlockName() == declareName {
			continue
		}
		if err := inner.evaluate(); err != nil {
			diags = append(diags, evaluationDiagnostics(block, "Failed to evaluate node for config block", err)...)
			return nil, &LoadError{Diagnostics: diags, Files: withFilesOf(parsed.Files, err)}
		}
	}
	return defined, nil
}

// importedFolder returns the folder of the imported text. For a string it is the folder of the
// import block.
func (n *importNode) importedFolder() string {
	if n.kind() == source.KindString {
		folder, _ := n.standard.Lookup("module_path")
		text, _ := folder.(string)
		return text
	}
	return n.content.Folder()
}

// nested returns the node of an import block in the imported text. New content of the nested import
// also counts as new content of n.
func (n *importNode) nested(block *ast.BlockStmt, folder string) *importNode {
	inner := newImportNode(n.outer, block, func(node) { n.onChange(n) })
	inner.standard = scopeIn(n.outer.r.standard, folder)
	inner.globalID = n.globalID + "/" + inner.nodeID
	return inner
}

func (n *importNode) built() bool {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return n.isReady
}

// run watches for new content, in n and in nested imports, until ctx is done.
func (n *importNode) runComponent(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	n.evalMu.Lock()
	content := n.content
	n.evalMu.Unlock()
	n.started()

	ended := make(chan error, 1)
	go func() { ended <- protect(func() error { return content.Run(ctx) }) }()
	inner := newScheduler(n.outer.r.options.Logger)
	wakeUp(n.changed)
	for {
		select {
		case <-n.changed:
			inner.synchronize(n.nestedRunnables(), false)
		case <-content.Changed():
			n.contentChanged()
		case err := <-ended:
			inner.close(n.outer.r.options.StopTimeout)
			if err != nil {
				level.Error(n.outer.r.logger).Log("msg", "import ended", "import", n.globalID, "err", err)
			}
			n.exited(err)
			return
		}
	}
}

func (n *importNode) contentChanged() {
	n.evalMu.Lock()
	defer n.evalMu.Unlock()
	if err := protect(n.takeContent); err != nil {
		level.Error(n.outer.r.logger).Log("msg", "new imported content cannot be used; the previous content stays",
			"import", n.globalID, "err", err)
	}
}

func (n *importNode) nestedRunnables() []runnable {
	var found []runnable
	for _, inner := range n.definitions().imports {
		found = append(found, inner)
	}
	return found
}

func (n *importNode) contentHealth() component.Health {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return n.contentOK
}

// currentHealth returns the worst health of evaluation, run, content, the component that reads the content, and nested
// imports.
func (n *importNode) currentHealth() component.Health {
	n.mu.RLock()
	content := n.content
	n.mu.RUnlock()
	worst := component.LeastHealthy(n.blockNode.currentHealth(), n.contentHealth())
	if content != nil {
		worst = content.Worst(worst)
	}
	for _, inner := range n.definitions().imports {
		worst = component.LeastHealthy(worst, inner.currentHealth())
	}
	return worst
}
