package river

import (
	"github.com/go-kit/log/level"
	"github.com/grafana/river/ast"
)

// settingNode applies a block that configures the runtime itself, or the defaults if the
// configuration does not contain the block.
type settingNode struct {
	blockNode
	apply   func(decode func(arguments interface{}) error) error
	failure string // text for a failed evaluation in diagnostics
}

// newSettingNode returns the node for the block of that name. apply decodes the block and applies
// it.
func newSettingNode(r *Runtime, name string, apply func(decode func(arguments interface{}) error) error) *settingNode {
	return &settingNode{
		blockNode: blockNode{
			nodeID: name, globalID: name, offline: r.options.Offline, standard: r.standard, health: newNodeHealth(),
		},
		apply:   apply,
		failure: "Failed to evaluate node for config block",
	}
}

// newLoggingNode returns the node of the logging block.
func newLoggingNode(r *Runtime) *settingNode {
	return newSettingNode(r, "logging", func(decode func(interface{}) error) error {
		var arguments LoggingArguments
		if err := decode(&arguments); err != nil {
			return err
		}
		r.options.Logger.Configure(arguments)
		return nil
	})
}

// liveDebuggingArguments is the livedebugging block of Alloy. It is accepted so that Alloy
// configurations load.
type liveDebuggingArguments struct {
	Enabled bool `river:"enabled,attr,optional"`
}

// newLiveDebuggingNode returns the node of the livedebugging block.
func newLiveDebuggingNode(r *Runtime) *settingNode {
	return newSettingNode(r, "livedebugging", func(decode func(interface{}) error) error {
		var arguments liveDebuggingArguments
		if err := decode(&arguments); err != nil {
			return err
		}
		if arguments.Enabled {
			level.Warn(r.logger).Log(
				"msg", "livedebugging is accepted without effect: the data of components is not streamed to the user interface")
		}
		return nil
	})
}

func (n *settingNode) exported() interface{} { return nil }

func (n *settingNode) configure(g *graph) { n.setGraph(g, n) }

func (n *settingNode) evaluate() error {
	n.evalMu.Lock()
	defer n.evalMu.Unlock()
	return n.lookOffline(protect(func() error { return n.apply(n.decodeBlock) }))
}

// decodeBlock decodes the body of the block. If there is no block, it decodes an empty body, so
// that the defaults apply. It ignores a label, as the Agent does.
func (n *settingNode) decodeBlock(arguments interface{}) error {
	if n.block == nil {
		return decodeBody(ast.Body{}, n.standard, arguments)
	}
	return n.decode(n.block.Body, arguments)
}
