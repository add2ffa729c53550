package docs

import (
	"encoding"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/alecthomas/units"
	"github.com/grafana/river/rivertypes"

	"github.com/headwater/headwater/component/common/relabel"
	"github.com/headwater/headwater/component/otelcol"
	"github.com/headwater/headwater/component/pyroscope"
)

// argument is an attribute of a component, as its page shows it.
type argument struct {
	Name    string // with the blocks around it, separated by dots
	Type    string
	Default string // "required", or the value in River; "" if there is none
}

// block is a block of a component.
type block struct {
	Name  string // with the blocks around it, separated by dots
	Count string // "1", "0 or 1" or "any number"
}

// schema is what River decodes into a struct.
type schema struct {
	arguments []argument
	blocks    []block
}

// defaulter is River's, by which a struct sets its defaults.
type defaulter interface{ SetToDefault() }

// schemaOf returns what River reads into a struct of the type of zero.
func schemaOf(zero any) (s schema) {
	v := reflect.New(reflect.TypeOf(zero))
	if d, ok := v.Interface().(defaulter); ok {
		d.SetToDefault()
	}
	s.add("", v.Elem())
	return s
}

// add adds the tagged fields of a struct in the block prefix.
func (s *schema) add(prefix string, v reflect.Value) {
	for i := range v.NumField() {
		tag, tagged := v.Type().Field(i).Tag.Lookup("river")
		if !tagged {
			continue
		}
		words := strings.Split(tag, ",")
		name, kind, optional := prefix+words[0], words[1], len(words) > 2
		switch kind {
		case "attr":
			a := argument{Name: name, Type: typeName(v.Field(i).Type()), Default: "required"}
			if optional {
				a.Default = literal(v.Field(i))
			}
			s.arguments = append(s.arguments, a)
		case "squash":
			s.add(prefix, v.Field(i))
		case "block":
			s.addBlock(name, optional, v.Field(i))
		}
	}
}

func (s *schema) addBlock(name string, optional bool, v reflect.Value) {
	b := block{name, "1"}
	if optional {
		b.Count = "0 or 1"
	}
	inside := v.Type()
	if inside.Kind() == reflect.Slice {
		b.Count, inside = "any number", inside.Elem()
	}
	s.blocks = append(s.blocks, b)
	if inside.Kind() == reflect.Map {
		return // any attributes
	}
	value := v
	if inside.Kind() == reflect.Pointer {
		inside = inside.Elem()
	}
	fresh := reflect.New(inside)
	if d, ok := fresh.Interface().(defaulter); ok { // River calls it for each block
		d.SetToDefault()
		value = fresh.Elem()
	} else if v.Kind() != reflect.Struct {
		value = fresh.Elem()
	}
	s.add(name+".", value)
}

// typeNames are the types that River does not look into.
var typeNames = map[reflect.Type]string{
	reflect.TypeFor[time.Duration]():             "duration",
	reflect.TypeFor[rivertypes.Secret]():         "secret",
	reflect.TypeFor[rivertypes.OptionalSecret](): "string or secret",
	reflect.TypeFor[units.Base2Bytes]():          "size",
	reflect.TypeFor[relabel.Rules]():             "rules",
	reflect.TypeFor[pyroscope.Appendable]():      "receiver",
	reflect.TypeFor[otelcol.Consumer]():          "consumer",
}

// typeName returns how the pages call a type.
func typeName(t reflect.Type) string {
	if name, ok := typeNames[t]; ok {
		return name
	}
	if reflect.PointerTo(t).Implements(reflect.TypeFor[encoding.TextUnmarshaler]()) {
		return "string"
	}
	switch t.Kind() {
	case reflect.Pointer:
		return typeName(t.Elem())
	case reflect.Slice:
		return "list(" + typeName(t.Elem()) + ")"
	case reflect.Map:
		return "map(" + typeName(t.Elem()) + ")"
	case reflect.Interface:
		return "any"
	case reflect.Bool, reflect.String:
		return t.Kind().String()
	case reflect.Int, reflect.Int64, reflect.Uint, reflect.Uint64, reflect.Float64:
		return "number"
	}
	return "unknown type " + t.String()
}

// literal returns a default as River writes it.
func literal(v reflect.Value) string {
	if d, ok := v.Interface().(time.Duration); ok {
		return strconv.Quote(shortDuration(d))
	}
	if m, ok := v.Interface().(encoding.TextMarshaler); ok && v.Kind() != reflect.Pointer {
		text, _ := m.MarshalText() // a value that has no text is not set
		return strconv.Quote(string(text))
	}
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if v.IsNil() {
			return ""
		}
		return literal(v.Elem())
	case reflect.String:
		return strconv.Quote(v.String())
	case reflect.Slice:
		if v.Len() == 0 {
			return "[]"
		}
	case reflect.Map:
		if v.Len() == 0 {
			return "{}"
		}
	}
	return fmt.Sprint(v.Interface())
}

// shortDuration leaves out units that are zero: 5m0s is 5m.
func shortDuration(d time.Duration) string {
	text := d.String()
	text = strings.TrimSuffix(text, "0s")
	if text == "" || text[len(text)-1] >= '0' && text[len(text)-1] <= '9' {
		return d.String()
	}
	if hours, ok := strings.CutSuffix(text, "h0m"); ok {
		return hours + "h"
	}
	return text
}
