package river

import (
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/go-kit/log/level"
	"github.com/grafana/river/encoding/riverjson"

	"github.com/headwater/headwater/component"
)

// ComponentInfo describes a loaded component. Its JSON is that of the Grafana
// Agent's /api/v0/web/components. Secrets appear as "(secret)".
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

	// River bodies as JSON; empty lists unless details were asked for.
	Arguments json.RawMessage `json:"arguments"`
	Exports   json.RawMessage `json:"exports"`
	DebugInfo json.RawMessage `json:"debugInfo"`
}

// ComponentInfoHealth is a component's health in JSON.
type ComponentInfoHealth struct {
	State       string    `json:"state"`
	Message     string    `json:"message"`
	UpdatedTime time.Time `json:"updatedTime"`
}

// Components describes all loaded components in the order of the configuration,
// without arguments, exports and debug info.
func (r *Runtime) Components() []ComponentInfo {
	g := r.graph.Load()
	infos := []ComponentInfo{}
	for _, n := range g.components() {
		infos = append(infos, describe(g, n))
	}
	return infos
}

// Component describes one loaded component with all details.
func (r *Runtime) Component(id string) (ComponentInfo, bool) {
	g := r.graph.Load()
	n, ok := g.byID[id].(*componentNode)
	if !ok {
		return ComponentInfo{}, false
	}
	info := describe(g, n)
	info.Arguments = r.encodeBody(id, "arguments", n.arguments())
	info.Exports = r.encodeBody(id, "exports", n.exported())
	info.DebugInfo = r.encodeBody(id, "debug info", n.debugInfo())
	return info, true
}

// Unhealthy returns the IDs of all components that are unhealthy or have exited.
func (r *Runtime) Unhealthy() []string {
	var ids []string
	for _, n := range r.graph.Load().components() {
		switch n.currentHealth().Health {
		case component.HealthTypeUnhealthy, component.HealthTypeExited:
			ids = append(ids, n.id())
		}
	}
	return ids
}

// handler returns what a component serves, or nil.
func (r *Runtime) handler(id string) http.Handler {
	n, ok := r.graph.Load().byID[id].(*componentNode)
	if !ok {
		return nil
	}
	server, ok := n.component().(component.HTTPComponent)
	if !ok {
		return nil
	}
	return server.Handler()
}

func describe(g *graph, n *componentNode) ComponentInfo {
	health := n.currentHealth()
	return ComponentInfo{
		Name:         n.registration.Name,
		Type:         "block",
		LocalID:      n.nodeID,
		Label:        n.label,
		ReferencesTo: componentIDs(g.dependencies[n]),
		ReferencedBy: componentIDs(g.dependants[n]),
		Health: ComponentInfoHealth{
			State:       health.Health.String(),
			Message:     health.Message,
			UpdatedTime: health.UpdateTime,
		},
		Arguments: json.RawMessage("[]"),
		Exports:   json.RawMessage("[]"),
		DebugInfo: json.RawMessage("[]"),
	}
}

func componentIDs(nodes []node) []string {
	ids := []string{}
	for _, n := range nodes {
		if _, ok := n.(*componentNode); ok {
			ids = append(ids, n.id())
		}
	}
	return ids
}

// encodeBody encodes a struct with River tags, or a map. The encoder panics on
// anything else, which is the component's mistake, not the reader's.
func (r *Runtime) encodeBody(id, what string, value interface{}) json.RawMessage {
	var body []byte
	err := protect(func() (err error) {
		body, err = riverjson.MarshalBody(value)
		return err
	})
	if err != nil {
		level.Error(r.logger).Log("msg", fmt.Sprintf("component's %s cannot be encoded", what), "component", id, "err", err)
		return json.RawMessage("[]")
	}
	return body
}
