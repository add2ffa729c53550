package server

import (
	"bytes"
	"encoding/json"
	"io"
	"reflect"
	"strconv"
	"strings"
)

// encodeFields writes a struct as JSON, like encoding/json, but field by field, also inside nested structs, and long
// lists in chunks. encoding/json would hold the whole result in memory, about a megabyte for a flame graph.
func encodeFields(w io.Writer, of any) error {
	e := fieldEncoder{Writer: w}
	e.write("{")
	e.fields(reflect.Indirect(reflect.ValueOf(of)))
	e.write("}")
	return e.err
}

// fieldEncoder writes fields up to the first error.
type fieldEncoder struct {
	io.Writer
	err  error
	more bool   // the current struct already has a field
	text []byte // buffer for numbers
}

func (e *fieldEncoder) write(text string) {
	if e.err == nil {
		_, e.err = io.WriteString(e.Writer, text)
	}
}

// fields writes the fields of a struct, and the fields of embedded structs.
func (e *fieldEncoder) fields(of reflect.Value) {
	for field, value := range of.Fields() {
		tag, isTagged := field.Tag.Lookup("json")
		name, options, _ := strings.Cut(tag, ",")
		switch {
		case field.Anonymous && !isTagged:
			e.fields(reflect.Indirect(value))
		case !field.IsExported() || tag == "-" || options == "omitempty" && isEmpty(value):
		default:
			if name == "" {
				name = field.Name
			}
			e.field(name, value)
		}
	}
}

func (e *fieldEncoder) field(name string, value reflect.Value) {
	if e.more {
		e.write(",")
	}
	e.write(`"` + name + `":`)
	_, own := value.Interface().(json.Marshaler)
	if inside := reflect.Indirect(value); inside.Kind() == reflect.Struct && !own {
		e.write("{")
		e.more = false
		e.fields(inside)
		e.write("}")
	} else if e.err == nil {
		e.err = e.value(value, own)
	}
	e.more = true
}

// chunk is the number of list elements that are encoded at a time.
const chunk = 1000

// value writes a value that is not a struct. It writes long lists in chunks.
func (e *fieldEncoder) value(of reflect.Value, own bool) error {
	switch list := of.Interface().(type) {
	case []int32:
		return writeNumbers(e, list)
	case []int64:
		return writeNumbers(e, list)
	}
	if own || of.Kind() != reflect.Slice || of.Len() <= chunk || of.Type().Elem().Kind() == reflect.Uint8 {
		return json.NewEncoder(trimmed{e.Writer, "", "\n"}).Encode(of.Interface())
	}
	begin := "["
	list := json.NewEncoder(trimmed{e.Writer, "[", "]\n"})
	for from := 0; from < of.Len(); from += chunk {
		e.write(begin)
		begin = ","
		if err := list.Encode(of.Slice(from, min(from+chunk, of.Len())).Interface()); err != nil {
			return err
		}
	}
	e.write("]")
	return e.err
}

// writeNumbers writes a list of numbers. Flame graphs consist mostly of numbers, and encoding/json takes several times
// as long.
func writeNumbers[T int32 | int64](e *fieldEncoder, list []T) error {
	if list == nil {
		_, err := io.WriteString(e, "null")
		return err
	}
	e.text = append(e.text[:0], '[')
	for i, value := range list {
		if i > 0 {
			e.text = append(e.text, ',')
		}
		e.text = strconv.AppendInt(e.text, int64(value), 10)
		if len(e.text) >= chunk {
			if _, err := e.Write(e.text); err != nil {
				return err
			}
			e.text = e.text[:0]
		}
	}
	_, err := e.Write(append(e.text, ']'))
	return err
}

// isEmpty reports whether omitempty leaves out a value.
func isEmpty(value reflect.Value) bool {
	switch value.Kind() {
	case reflect.Array, reflect.Map, reflect.Slice, reflect.String:
		return value.Len() == 0
	case reflect.Struct:
		return false
	default:
		return value.IsZero()
	}
}

// trimmed removes a prefix and a suffix from each value that a json.Encoder writes.
type trimmed struct {
	io.Writer
	begin, end string
}

func (w trimmed) Write(p []byte) (int, error) {
	n, err := w.Writer.Write(bytes.TrimSuffix(bytes.TrimPrefix(p, []byte(w.begin)), []byte(w.end)))
	if err != nil {
		return n, err
	}
	return len(p), nil
}
