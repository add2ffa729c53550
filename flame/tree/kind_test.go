package tree

import (
	"testing"

	"github.com/google/pprof/profile"
)

// TestUnnamed checks that the quick test in isUnnamed excludes no name that the regular expression matches.
func TestUnnamed(t *testing.T) {
	for name, want := range map[string]bool{
		"[unknown]": true, "[incomplete]": true, "[incomplete: no row]": true, "[guessed: fp in a]": true,
		"libc.so.6+0x1f0": true, "0x7f00": true,
		"main": false, "[PHP code]": false, "f0x": false, "std::map<int>::operator[]": false, "a+0x1g": false,
		"operator+0x": false, "[incompleteness]": false,
	} {
		if got := KindOf(nil, name, false) == Unnamed; got != want || unnamed.MatchString(name) != want {
			t.Errorf("%s: unnamed is %v, by the expression %v, want %v", name, got, unnamed.MatchString(name), want)
		}
	}
}

func TestAddressName(t *testing.T) {
	// From readelf and /proc/PID/maps:
	libc := &profile.Mapping{Start: 0x7f0000001000, Limit: 0x7f0000003000, Offset: 0x26000, File: "/lib/libc.so.6"}
	for name, test := range map[string]struct {
		location profile.Location
		want     string
	}{
		"in a mapping":           {profile.Location{Address: 0x7f0000001010, Mapping: libc}, "libc.so.6+0x26010"},
		"its first byte":         {profile.Location{Address: 0x7f0000001000, Mapping: libc}, "libc.so.6+0x26000"},
		"of the file already":    {profile.Location{Address: 0x26010, Mapping: libc}, "libc.so.6+0x26010"},
		"mapping without places": {profile.Location{Address: 0x10, Mapping: &profile.Mapping{File: "/bin/a"}}, "a+0x10"},
		"mapping without a file": {profile.Location{Address: 0x10, Mapping: &profile.Mapping{Start: 8}}, "0x10"},
		"no mapping":             {profile.Location{Address: 0x10}, "0x10"},
	} {
		if got := AddressName(&test.location); got != test.want {
			t.Errorf("%s: got %s, want %s", name, got, test.want)
		}
	}
}
