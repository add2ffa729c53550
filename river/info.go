package river

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/go-kit/log/level"

	"github.com/headwater/headwater/component"
	"github.com/headwater/headwater/component/common/config"
)

// ComponentInfo describes a loaded component. Its JSON is compatible with the Grafana Agent's
// /api/v0/web/components. Secrets appear as "(secret)".
type ComponentInfo struct {
	Name         string              `json:"name"` // such as pyroscope.ebpf
	Type         string              `json:"type"` // always block
	LocalID      string              `json:"localID"`
	ModuleID     string              `json:"moduleID"`
	Label        string              `json:"label,omitempty"`
	ReferencesTo []string            `json:"referencesTo"`
	ReferencedBy []string            `json:"referencedBy"`
	Health       ComponentInfoHealth `json:"health"`
	Original     string              `json:"original"`

	// River bodies as JSON; empty lists unless details were requested.
	Arguments json.RawMessage `json:"arguments"`
	Exports   json.RawMessage `json:"exports"`
	DebugInfo json.RawMessage `json:"debugInfo"`

	// CreatedModuleIDs are the IDs of the modules inside the component: at most one.
	CreatedModuleIDs []string `json:"createdModuleIDs,omitempty"`

	// The Agent does not have these fields.

	// Pages is the path of the pages that the component serves itself, or "".
	Pages string `json:"pages,omitempty"`

	// SendsTo is the subset of ReferencesTo that gets data from this component. The other
	// components send data to this one.
	SendsTo []string `json:"sendsTo,omitempty"`

	// Warnings are about arguments that do not have the effect that they ask for.
	Warnings []string `json:"warnings,omitempty"`

	// DeclaredIn are the local IDs of the imports that declare the component.
	DeclaredIn []string `json:"declaredIn,omitempty"`
}

// ComponentInfoHealth is a component's health in JSON.
type ComponentInfoHealth struct {
	State       string    `json:"state"`
	Message     string    `json:"message"`
	UpdatedTime time.Time `json:"updatedTime"`
}

// Components describes all components of the user's configuration, in the order of the text,
// without arguments, exports and debug info.
func (r *Runtime) Components() []ComponentInfo {
	infos, _ := r.ModuleComponents("")
	return infos
}

// ModuleComponents is Components for the module with that ID, and reports whether there is such a
// module.
func (r *Runtime) ModuleComponents(moduleID string) ([]ComponentInfo, bool) {
	m := r.module(moduleID)
	if m == nil {
		return nil, false
	}
	infos := []ComponentInfo{}
	g := m.graph.Load()
	for _, n := range g.instances() {
		infos = append(infos, m.describe(g, n))
	}
	return infos, true
}

// Component describes one loaded component with all details. The ID is global: the ID of a
// component in a module starts with the module's ID and a slash.
func (r *Runtime) Component(id string) (ComponentInfo, bool) {
	m, n := r.instance(id)
	if n == nil {
		return ComponentInfo{}, false
	}
	info := m.describe(m.graph.Load(), n)
	info.Arguments = r.encodeBody(id, "arguments", n.arguments())
	if loader, ok := n.(*moduleNode); ok {
		info.Arguments = joinBodies(r.encodeBody(id, "arguments", loader.place()), info.Arguments)
	}
	info.Exports = r.encodeBody(id, "exports", exportsBody(n))
	info.DebugInfo = r.encodeBody(id, "debug info", n.debugInfo())
	return info, true
}

// exportsBody returns a component's exports as a body. The exports of a module.* block are a block
// in that body.
func exportsBody(n instance) interface{} {
	if loader, ok := n.(*moduleNode); ok {
		return struct {
			Exports map[string]any `river:"exports,block"`
		}{loader.currentExports()}
	}
	return n.exported()
}

// module returns the module with that ID, or nil.
func (r *Runtime) module(id string) (found *module) {
	r.root.walkModules(func(m *module) {
		if m.id == id {
			found = m
		}
	})
	return found
}

// instance returns the component with that global ID and its module, or nil.
func (r *Runtime) instance(id string) (*module, instance) {
	moduleID, localID := "", id
	if slash := strings.LastIndexByte(id, '/'); slash >= 0 {
		moduleID, localID = id[:slash], id[slash+1:]
	}
	m := r.module(moduleID)
	if m == nil {
		return nil, nil
	}
	n, ok := m.graph.Load().byID[localID].(instance)
	if !ok {
		return nil, nil
	}
	return m, n
}

// Unhealthy returns the global IDs of all components and imports that are
// unhealthy or have exited.
func (r *Runtime) Unhealthy() []string {
	return r.withHealth(component.HealthTypeUnhealthy, component.HealthTypeExited)
}

// notHealthy returns the IDs of the components that are not healthy, including components that have
// not started.
func (r *Runtime) notHealthy() []string {
	return r.withHealth(component.HealthTypeUnhealthy, component.HealthTypeExited, component.HealthTypeUnknown)
}

// withHealth returns the IDs of the components with one of the given health types.
func (r *Runtime) withHealth(of ...component.HealthType) []string {
	var ids []string
	r.root.walkModules(func(m *module) {
		for _, n := range m.graph.Load().runnables() {
			if slices.Contains(of, n.currentHealth().Health) {
				ids = append(ids, m.globalID(n.id()))
			}
		}
	})
	return ids
}

// handler returns the component's HTTP handler, or nil.
func (r *Runtime) handler(id string) http.Handler {
	_, n := r.instance(id)
	built, ok := n.(*componentNode)
	if !ok {
		return nil
	}
	return built.handler()
}

func healthInfo(health component.Health) ComponentInfoHealth {
	return ComponentInfoHealth{
		State:       health.Health.String(),
		Message:     string(config.HidePasswords([]byte(health.Message))),
		UpdatedTime: health.UpdateTime,
	}
}

func (m *module) describe(g *graph, n instance) ComponentInfo {
	info := ComponentInfo{
		Name:         n.name(),
		Type:         "block",
		LocalID:      n.id(),
		ModuleID:     m.id,
		Label:        n.label(),
		ReferencesTo: componentIDs(g.Dependencies(n)),
		ReferencedBy: componentIDs(g.Dependants(n)),
		Health:       healthInfo(n.currentHealth()),
		Arguments:    json.RawMessage("[]"),
		Exports:      json.RawMessage("[]"),
		DebugInfo:    json.RawMessage("[]"),
		SendsTo:      g.sendsTo(n),
		DeclaredIn:   importIDs(g.Dependencies(n)),
	}
	if inner := n.module(); inner != nil {
		info.CreatedModuleIDs = []string{inner.id}
	}
	if built, ok := n.(*componentNode); ok {
		for _, w := range built.currentWarnings() {
			info.Warnings = append(info.Warnings, w.Error())
		}
		if built.handler() != nil {
			info.Pages = componentPath + built.globalID + "/"
		}
	}
	return info
}

func componentIDs(nodes []node) []string {
	ids := []string{}
	for _, n := range nodes {
		if _, ok := n.(instance); ok {
			ids = append(ids, n.id())
		}
	}
	return ids
}

// joinBodies returns a body with the statements of both bodies.
func joinBodies(first, second json.RawMessage) json.RawMessage {
	var all, more []json.RawMessage
	if json.Unmarshal(first, &all) != nil || json.Unmarshal(second, &more) != nil {
		return second
	}
	joined, err := json.Marshal(append(all, more...))
	if err != nil {
		return second
	}
	return joined
}

// encodeBody encodes a struct with River tags, or a map. The encoder panics on other values, which
// is an error of the component, not of the client.
func (r *Runtime) encodeBody(id, what string, value interface{}) json.RawMessage {
	var body []byte
	err := protect(func() (err error) {
		body, err = marshalBody(value)
		return err
	})
	if err != nil {
		level.Error(r.logger).Log("msg", fmt.Sprintf("component's %s cannot be encoded", what), "component", id, "err", err)
		return json.RawMessage("[]")
	}
	return body
}
