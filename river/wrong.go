package river

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/grafana/river/ast"
	"github.com/grafana/river/diag"
	"github.com/grafana/river/vm"

	"github.com/headwater/headwater/river/internal/source"
)

// River's decoder stops at the first problem of a block. This file finds the other problems after
// it has failed.

// bodyError is the error of a body that failed to decode: the error of River's decoder, and the
// other problems of the body.
type bodyError struct {
	error
	others diag.Diagnostics
}

func (e *bodyError) Unwrap() error { return e.error }

// withOthers adds to an error of River's decoder the other problems of the body, and suggestions
// for misspelled names. into is the target of the decoding.
func withOthers(err error, body ast.Body, scope *vm.Scope, into any) error {
	f := finder{scope: scope}
	f.checkBody(body, reflect.TypeOf(into), nil)
	var first diag.Diagnostics
	if !errors.As(err, &first) || len(first) == 0 {
		f.others = slices.DeleteFunc(f.others, func(d diag.Diagnostic) bool { return d.Message == err.Error() })
		return f.wrapError(err)
	}
	at := slices.IndexFunc(f.others, func(d diag.Diagnostic) bool { return d.StartPos == first[0].StartPos })
	if at < 0 {
		return f.wrapError(err)
	}
	if found := f.others[at].Message; strings.HasPrefix(found, first[0].Message) {
		first = slices.Clone(first)
		first[0].Message = found
	}
	f.others = slices.Delete(f.others, at, at+1)
	return f.wrapError(first)
}

// maxWrong bounds the problems reported for a block.
const maxWrong = 20

func (f *finder) wrapError(err error) error {
	if len(f.others) == 0 {
		return err
	}
	return &bodyError{err, f.others[:min(len(f.others), maxWrong)]}
}

// finder finds the problems of a body.
type finder struct {
	scope  *vm.Scope
	skip   func(value ast.Expr) bool // if not nil: values that cannot be evaluated
	others diag.Diagnostics
}

func (f *finder) addDiagnostic(n ast.Node, format string, args ...any) {
	f.others.Add(source.ErrorAt(n, format, args...))
}

// checkBody compares a body with the type that it is decoded to. block is the enclosing block, or nil
// for the body of a component.
func (f *finder) checkBody(body ast.Body, t reflect.Type, block *ast.BlockStmt) {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice || t.Kind() == reflect.Array {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct || decodesItself(t) {
		return
	}
	fields, seen, meant := fieldsOf(t), map[string]bool{}, map[string]bool{}
	for _, stmt := range body {
		switch stmt := stmt.(type) {
		case *ast.AttributeStmt:
			name := stmt.Name.Name
			if known, ok := fields[name]; ok {
				f.attribute(stmt, known, seen[name])
			} else {
				meant[f.unknown(stmt, "attribute", name, fields)] = true
			}
			seen[name] = true
		case *ast.BlockStmt:
			name := stmt.GetBlockName()
			switch known, ok := fields[name]; {
			case !ok:
				meant[f.unknown(stmt, "block", name, fields)] = true
			case !known.block:
				f.addDiagnostic(stmt, "%q must be an attribute, but is used as a block", name)
			default:
				f.checkBody(stmt.Body, known.kind, stmt)
			}
			seen[name] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if known := fields[name]; !known.optional && !seen[name] && !meant[name] {
			f.missing(name, known, block)
		}
	}
}

// unknown reports an unknown field name, and returns the field that is probably meant.
func (f *finder) unknown(n ast.Node, kind, name string, fields map[string]field) string {
	meant := nearest(name, maps.Keys(fields))
	hint := ""
	if meant != "" {
		hint = fmt.Sprintf(", did you mean %q?", meant)
	}
	f.addDiagnostic(n, "unrecognized %s name %q%s", kind, name, hint)
	return meant
}

// missing reports a missing required field.
func (f *finder) missing(name string, known field, block *ast.BlockStmt) {
	kind := "attribute"
	if known.block {
		kind = "block"
	}
	message := fmt.Sprintf("missing required %s %q", kind, name)
	if block == nil { // the diagnostic later gets the position of the component's block
		f.others.Add(diag.Diagnostic{Severity: diag.SeverityLevelError, Message: message})
		return
	}
	f.addDiagnostic(block, "%s", message)
}

// attribute evaluates an attribute and reports its problems.
func (f *finder) attribute(stmt *ast.AttributeStmt, known field, again bool) {
	name := stmt.Name.Name
	if again {
		f.addDiagnostic(stmt, "attribute %q may only be provided once", name)
		return
	}
	if known.block {
		f.addDiagnostic(stmt, "%q must be a block, but is used as an attribute", name)
		return
	}
	if f.skip != nil && f.skip(stmt.Value) {
		return
	}
	err := vm.New(stmt.Value).Evaluate(f.scope, reflect.New(known.kind).Interface())
	var diags diag.Diagnostics
	switch {
	case err == nil:
	case errors.As(err, &diags):
		f.others = append(f.others, diags...)
	default:
		f.addDiagnostic(stmt, "%s", err)
	}
}

// field is a field of a struct that River decodes.
type field struct {
	kind            reflect.Type
	block, optional bool
}

// fieldsOf returns the fields of a struct by their River names.
func fieldsOf(t reflect.Type) map[string]field {
	all := map[string]field{}
	for i := range t.NumField() {
		tag, ok := t.Field(i).Tag.Lookup("river")
		if !ok {
			continue
		}
		name, flags, _ := strings.Cut(tag, ",")
		has := func(flag string) bool { return slices.Contains(strings.Split(flags, ","), flag) }
		kind := t.Field(i).Type
		switch {
		case has("squash"):
			for kind.Kind() == reflect.Pointer {
				kind = kind.Elem()
			}
			maps.Copy(all, fieldsOf(kind))
		case has("enum"):
			for inner, f := range fieldsOf(kind.Elem()) {
				f.optional = true
				all[name+"."+inner] = f
			}
		case has("attr"), has("block"):
			all[name] = field{kind, has("block"), has("optional")}
		}
	}
	return all
}

// decodesItself reports whether a type has a method to decode River, so that its fields are
// irrelevant.
func decodesItself(t reflect.Type) bool {
	_, ok := reflect.PointerTo(t).MethodByName("UnmarshalRiver")
	return ok
}
