package ebpf

import (
	"slices"
	"testing"

	"github.com/headwater/headwater/ebpf/language/all"
	"github.com/headwater/headwater/ebpf/profile"
)

// TestLanguageSwitches: each language whose functions have names has one argument that is true by default, and only the
// languages that are switched off are left out.
func TestLanguageSwitches(t *testing.T) {
	var want, got []string
	for _, l := range all.All() {
		if l.Name() != "" {
			want = append(want, l.Name())
		}
	}
	var a Settings
	a.SetToDefault()
	for name, on := range a.switches("language") {
		got = append(got, name)
		if !on.Bool() {
			t.Errorf("%s is off by default", name)
		}
	}
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("arguments for %q, want %q", got, want)
	}
	a.HotspotEnabled = false
	if off := a.languagesOff(); len(off) != 1 || !off["java"] {
		t.Errorf("off: %v", off)
	}
}

// TestLabelSwitches: each label of samples has one argument that is false by default.
func TestLabelSwitches(t *testing.T) {
	var names []string
	var a Settings
	a.SetToDefault()
	if on := a.sampleLabels(); len(on) > 0 {
		t.Errorf("labels by default: %v", on)
	}
	for name, on := range a.switches("label") {
		names = append(names, name)
		on.SetBool(true)
	}
	if !slices.Equal(names, profile.LabelNames()) || !slices.Equal(a.sampleLabels(), names) {
		t.Errorf("arguments for %v, switched on %v; the labels are %v", names, a.sampleLabels(), profile.LabelNames())
	}
}
