package ebpf

import (
	"iter"
	"reflect"
)

// languageSwitches yields the arguments that switch a language on and off, by the name of the language: the boolean
// fields of Settings with the tag language. Each is true by default.
func (a *Settings) languageSwitches() iter.Seq2[string, reflect.Value] {
	return func(yield func(string, reflect.Value) bool) {
		v := reflect.ValueOf(a).Elem()
		for i := range v.NumField() {
			if name, ok := v.Type().Field(i).Tag.Lookup("language"); ok && !yield(name, v.Field(i)) {
				return
			}
		}
	}
}

// languagesOff returns the names of the languages whose functions are not shown, nil if all are.
func (a *Settings) languagesOff() (off map[string]bool) {
	for name, on := range a.languageSwitches() {
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
