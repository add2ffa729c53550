package river

import (
	"errors"
	"io/fs"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/grafana/river/ast"
	"github.com/grafana/river/token"
	"github.com/grafana/river/vm"

	"github.com/headwater/headwater/river/internal/source"
)

// This file is the check of a configuration without a network, see Options.Offline. Every block is
// evaluated, but a component that asks another machine is not built. A value that would come from
// there is unknown, as is an environment variable that is not set here. A block that has unknown
// values is compared with its component's arguments as far as that goes, and is not built either.
// Such blocks are unseen: Runtime.Findings lists them.

// A veiled node may have values that a check without a network does not know.
type veiled interface {
	node

	// hides reports whether the value of a reference to the node is unknown. fields are the names
	// after the node's ID.
	hides(fields traversal) bool
}

// notSeen returns the reason why a block could not be looked at, if err is one. A file that this
// machine does not have or does not show is one, too.
func notSeen(err error) (reason string, ok bool) {
	var unseen *source.UnseenError
	switch {
	case errors.As(err, &unseen):
		return unseen.Reason, true
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrPermission):
		return err.Error(), true
	default:
		return "", false
	}
}

// unknownValues returns what the values in part of a text come from that are not known: nodes and
// environment variables, without duplicates. resolve returns the node of a reference, or nil.
func unknownValues(part ast.Node, resolve func(traversal) node) []string {
	var unknown []string
	note := func(what string) {
		if !slices.Contains(unknown, what) {
			unknown = append(unknown, what)
		}
	}
	for _, t := range traversals(part) {
		n, ok := resolve(t).(veiled)
		if ok && n.hides(t[strings.Count(n.id(), ".")+1:]) {
			note(n.id())
		}
	}
	for _, v := range unsetVariables(part) {
		note("the environment variable " + v.name)
	}
	return unknown
}

// variable is a call of env or sys.env in a text.
type variable struct {
	name string
	at   token.Position
}

// unsetVariables returns the environment variables that part of a text reads and that are not set.
// It does not find a variable whose name is computed.
func unsetVariables(part ast.Node) []variable {
	var f variableFinder
	ast.Walk(&f, part)
	return f.found
}

type variableFinder struct{ found []variable }

// Visit implements ast.Visitor.
func (f *variableFinder) Visit(n ast.Node) ast.Visitor {
	call, ok := n.(*ast.CallExpr)
	if !ok || len(call.Args) != 1 || !isEnv(call.Value) {
		return f
	}
	literal, ok := call.Args[0].(*ast.LiteralExpr)
	if !ok || literal.Kind != token.STRING {
		return f
	}
	name, err := strconv.Unquote(literal.Value)
	if err != nil {
		return f
	}
	if _, set := os.LookupEnv(name); !set {
		f.found = append(f.found, variable{name: name, at: ast.StartPos(call).Position()})
	}
	return f
}

// isEnv reports whether an expression is one of the names of River's function env.
func isEnv(function ast.Expr) bool {
	switch function := function.(type) {
	case *ast.IdentifierExpr:
		return function.Ident.Name == "env"
	case *ast.AccessExpr:
		t := accessed(function)
		return t != nil && t.String() == "sys.env"
	default:
		return false
	}
}

// lookout decodes bodies that may have unknown values.
type lookout struct {
	scope   *vm.Scope
	resolve func(traversal) node
}

func (l lookout) unknown(part ast.Node) []string { return unknownValues(part, l.resolve) }

// decode is decodeBody for a body that may have unknown values. If it has, decode reports the
// mistakes that do not depend on them, else a *source.UnseenError.
func (l lookout) decode(body ast.Body, into interface{}) error {
	if args, ok := into.(*map[string]any); ok {
		return l.decodeMap(body, args)
	}
	body = l.withoutReceivers(body, reflect.TypeOf(into))
	unknown := l.unknown(body)
	if len(unknown) == 0 {
		return decodeBody(body, l.scope, into)
	}
	f := finder{scope: l.scope, skip: func(value ast.Expr) bool { return len(l.unknown(value)) > 0 }}
	f.checkBody(body, reflect.TypeOf(into), nil)
	if len(f.others) > 0 {
		return f.others[:min(len(f.others), maxWrong)]
	}
	return &source.UnseenError{Reason: "depends on " + strings.Join(unknown, " and ")}
}

// decodeMap decodes the arguments of a module. An argument that is not known has the value
// unknownArgument.
func (l lookout) decodeMap(body ast.Body, into *map[string]any) error {
	var known ast.Body
	unknown := map[string]any{}
	for _, stmt := range body {
		attribute, ok := stmt.(*ast.AttributeStmt)
		if ok && len(l.unknown(attribute.Value)) > 0 {
			unknown[attribute.Name.Name] = unknownArgument{}
			continue
		}
		known = append(known, stmt)
	}
	if err := decodeBody(known, l.scope, into); err != nil {
		return err
	}
	if *into == nil {
		*into = map[string]any{}
	}
	for name, value := range unknown {
		(*into)[name] = value
	}
	return nil
}

// unknownArgument is the value of an argument of a module that is not known.
type unknownArgument struct{}

// withoutReceivers returns body with an empty list in place of each list of receivers that is not
// known: receivers are only called, so that nothing else in the block depends on them.
func (l lookout) withoutReceivers(body ast.Body, t reflect.Type) ast.Body {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice || t.Kind() == reflect.Array {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct || decodesItself(t) || len(l.unknown(body)) == 0 {
		return body
	}
	fields := fieldsOf(t)
	known := slices.Clone(body)
	for i, stmt := range body {
		switch stmt := stmt.(type) {
		case *ast.AttributeStmt:
			if isReceivers(fields[stmt.Name.Name].kind) && len(l.unknown(stmt.Value)) > 0 {
				known[i] = &ast.AttributeStmt{Name: stmt.Name, Value: &ast.ArrayExpr{}}
			}
		case *ast.BlockStmt:
			if field, ok := fields[stmt.GetBlockName()]; ok && field.block {
				block := *stmt
				block.Body = l.withoutReceivers(stmt.Body, field.kind)
				known[i] = &block
			}
		}
	}
	return known
}

func isReceivers(t reflect.Type) bool {
	return t != nil && t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Interface && t.Elem().NumMethod() > 0
}

// hides implements veiled.
func (n *blockNode) hides(traversal) bool { return n.unseenReason() != "" }

// unseenReason returns the reason why the block was not, or not completely, looked at, or "".
func (n *blockNode) unseenReason() string {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return n.unseen
}

// lookOffline notes the reason why the block could not be looked at, if err is one, and returns other
// errors.
func (n *blockNode) lookOffline(err error) error {
	reason := ""
	if n.offline {
		if why, ok := notSeen(err); ok {
			reason, err = why, nil
		}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.unseen = reason
	return err
}

// hides implements veiled. A component that looks for targets exports none at first, so its exports
// are known.
func (n *componentNode) hides(fields traversal) bool {
	return n.blockNode.hides(fields) && (n.registration.Asks == "" || n.registration.Answers)
}

// hides implements veiled.
func (n *customNode) hides(fields traversal) bool {
	return n.blockNode.hides(fields) || n.hidesExport(fields)
}

// hides implements veiled.
func (n *moduleNode) hides(fields traversal) bool {
	if len(fields) > 0 { // exports
		fields = fields[1:]
	}
	return n.blockNode.hides(fields) || n.hidesExport(fields)
}

// hidesExport reports whether a module's export is unknown; without a field, whether any is.
func (n *moduleHolder) hidesExport(fields traversal) bool {
	for _, inner := range n.inner.graph.Load().Nodes() {
		export, ok := inner.(*exportNode)
		if ok && export.isUnknown() && (len(fields) == 0 || fields[0].Name == export.label) {
			return true
		}
	}
	return false
}

// hides implements veiled.
func (n *argumentNode) hides(traversal) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.unknown
}

func (n *exportNode) isUnknown() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.unknown
}
