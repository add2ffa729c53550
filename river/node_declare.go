package river

// declareNode represents a declare block. It only makes cycles of declare blocks visible in the
// graph; each instance evaluates the content of the block.
type declareNode struct{ nodeID string }

func (n *declareNode) id() string            { return n.nodeID }
func (n *declareNode) configure(*graph)      {}
func (n *declareNode) evaluate() error       { return nil }
func (n *declareNode) exported() interface{} { return nil }
