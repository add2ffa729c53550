package river

import (
	"maps"
	"net/http"
	"slices"
	"strings"
)

// ImportInfo describes an import block, or an import block nested in imported text.
type ImportInfo struct {
	Name     string              `json:"name"`    // such as import.file
	LocalID  string              `json:"localID"` // includes the IDs of the enclosing imports
	ModuleID string              `json:"moduleID"`
	Label    string              `json:"label"`
	Health   ComponentInfoHealth `json:"health"`

	Offers []string `json:"offers"` // names of the declared components, as used in blocks
	UsedBy []string `json:"usedBy"` // components; empty for a nested import
}

// ModuleImports describes the imports of the module with that ID, "" for the user's configuration,
// in the order of the text. It reports whether there is such a module.
func (r *Runtime) ModuleImports(moduleID string) ([]ImportInfo, bool) {
	m := r.module(moduleID)
	if m == nil {
		return nil, false
	}
	infos := []ImportInfo{}
	g := m.graph.Load()
	for _, n := range g.Nodes() {
		if imported, ok := n.(*importNode); ok {
			infos = m.describeImport(infos, imported, componentIDs(g.Dependants(n)))
		}
	}
	return infos, true
}

// describeImport appends an import and the imports nested in its text.
func (m *module) describeImport(infos []ImportInfo, n *importNode, usedBy []string) []ImportInfo {
	definitions := n.definitions()
	info := ImportInfo{
		Name: strings.TrimSuffix(n.nodeID, "."+n.blockLabel), LocalID: strings.TrimPrefix(n.globalID, m.id+"/"),
		ModuleID: m.id, Label: n.blockLabel, Health: healthInfo(n.currentHealth()), Offers: []string{}, UsedBy: usedBy,
	}
	for _, label := range slices.Sorted(maps.Keys(definitions.declares)) {
		info.Offers = append(info.Offers, n.blockLabel+"."+label)
	}
	infos = append(infos, info)
	for _, label := range slices.Sorted(maps.Keys(definitions.imports)) {
		infos = m.describeImport(infos, definitions.imports[label], []string{})
	}
	return infos
}

func (r *Runtime) serveImports(w http.ResponseWriter, _ *http.Request) {
	infos, _ := r.ModuleImports("")
	writeJSON(w, infos)
}

// importIDs returns the IDs of the imports that declare a node's component.
func importIDs(nodes []node) (ids []string) {
	for _, n := range nodes {
		if _, ok := n.(*importNode); ok {
			ids = append(ids, n.id())
		}
	}
	return ids
}
