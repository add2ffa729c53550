package kind

import (
	"regexp"
	"testing"
)

// Pyroscope joins the parts of a type with colons, and refuses a sample type with a dash.
var inType = regexp.MustCompile(`^[a-z_]+$`)

// TestKindsDiffer checks that the names of all kinds differ, and their types in Pyroscope.
func TestKindsDiffer(t *testing.T) {
	types := map[string]bool{}
	for k := range Count {
		info := Of(k)
		if got, ok := ByName(info.Name); !ok || got != k {
			t.Errorf("%q is the name of kind %d, not of %d", info.Name, got, k)
		}
		if k.String() != info.Name || info.Title == "" {
			t.Errorf("kind %d is %q with the title %q", k, k, info.Title)
		}
		if !inType.MatchString(info.Series) || types[info.Series] {
			t.Errorf("kind %s has the __name__ %q", k, info.Series)
		}
		types[info.Series] = true
		for i, v := range info.Values {
			if !inType.MatchString(v.Type) || !inType.MatchString(v.Unit) || v.Per < 1 || i == 0 && v.Per != 1 {
				t.Errorf("kind %s has a value %+v", k, v)
			}
		}
	}
	if _, ok := ByName(Of(Count).Name); ok {
		t.Error("a kind that does not exist has a name")
	}
}

// Profiles of CPU time have the same type as from every other agent for Pyroscope.
func TestCPU(t *testing.T) {
	info := Of(CPU)
	if info.Series != "process_cpu" || len(info.Values) != 1 || info.Values[0] != (Value{"cpu", "nanoseconds", 1}) ||
		!info.IsTime() {
		t.Errorf("CPU time is %+v", info)
	}
}
