package ebpf

import (
	"iter"
	"reflect"
)

// switches yields the arguments that switch something on and off, by its name: the boolean fields of Settings with a
// tag, whose value is the name. Fields with the tag language switch languages, and are true by default; fields with the
// tag label add labels to samples.
func (a *Settings) switches(tag string) iter.Seq2[string, reflect.Value] {
	return func(yield func(string, reflect.Value) bool) {
		v := reflect.ValueOf(a).Elem()
		for i := range v.NumField() {
			if name, ok := v.Type().Field(i).Tag.Lookup(tag); ok && !yield(name, v.Field(i)) {
				return
			}
		}
	}
}

// languagesOff returns the names of the languages whose functions are not shown, nil if all are.
func (a *Settings) languagesOff() (off map[string]bool) {
	for name, on := range a.switches("language") {
		if on.Bool() {
			continue
		}
		if off == nil {
			off = map[string]bool{}
		}
		off[name] = true
	}
	return off
}

// sampleLabels returns the names of the labels that samples get.
func (a *Settings) sampleLabels() (names []string) {
	for name, on := range a.switches("label") {
		if on.Bool() {
			names = append(names, name)
		}
	}
	return names
}
