package river

import (
	"encoding"
	"reflect"
	"slices"
	"strings"

	"github.com/grafana/river/rivertypes"
)

// sendsTo returns the IDs of the components that a node's block sends data to, without duplicates.
// The block sends data to a component if it refers to an export that is called, such as a receiver
// of profiles. From the other components that it refers to, it gets data. A reference through an
// index counts as getting data.
func (g *graph) sendsTo(n node) []string {
	block := g.blocks[n]
	if block == nil {
		return nil
	}
	var ids []string
	for _, t := range traversals(block.Body) {
		if _, standard := g.standard.Lookup(t[0].Name); standard {
			continue
		}
		to, ok := g.resolve(t).(instance)
		if !ok || slices.Contains(ids, to.id()) {
			continue
		}
		fields := t[strings.Count(to.id(), ".")+1:]
		if isCalled(fieldOf(reflect.ValueOf(to.exported()), fields)) {
			ids = append(ids, to.id())
		}
	}
	return ids
}

// fieldOf follows names through maps and through structs with River tags. It returns the zero Value
// if a name does not exist.
func fieldOf(value reflect.Value, names traversal) reflect.Value {
	for _, name := range names {
		for value.Kind() == reflect.Interface || value.Kind() == reflect.Pointer {
			value = value.Elem()
		}
		switch {
		case value.Kind() == reflect.Map && value.Type().Key().Kind() == reflect.String:
			value = value.MapIndex(reflect.ValueOf(name.Name).Convert(value.Type().Key()))
		case value.Kind() == reflect.Struct:
			value = taggedField(value, name.Name)
		default:
			return reflect.Value{}
		}
	}
	return value
}

func taggedField(value reflect.Value, name string) reflect.Value {
	for i := range value.NumField() {
		tag, _, _ := strings.Cut(value.Type().Field(i).Tag.Get("river"), ",")
		if tag == name {
			return value.Field(i)
		}
	}
	return reflect.Value{}
}

// isCalled reports whether a value is called, not read. In a struct, the type of such a field is an
// interface with methods, which River turns into a capsule. The exports of a module have lost that
// type; there it is a value with methods that is neither text nor declared as a capsule, as secrets
// and rules are.
func isCalled(value reflect.Value) bool {
	if value.Kind() == reflect.Interface && value.NumMethod() > 0 {
		return true
	}
	if value.Kind() == reflect.Interface {
		value = value.Elem()
	}
	switch value.Kind() {
	case reflect.Pointer, reflect.Struct, reflect.Func:
	default:
		return false
	}
	switch value.Interface().(type) {
	case encoding.TextMarshaler, rivertypes.Secret, rivertypes.OptionalSecret, interface{ RiverCapsule() }:
		return false
	default:
		return value.NumMethod() > 0
	}
}
