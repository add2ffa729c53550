package river

// declareNode stands for a declare block. It does nothing but let cycles of
// declare blocks be found; what is in the block is evaluated in each instance.
type declareNode struct{ nodeID string }

func (n *declareNode) id() string            { return n.nodeID }
func (n *declareNode) configure(*graph)      {}
func (n *declareNode) evaluate() error       { return nil }
func (n *declareNode) exported() interface{} { return nil }
