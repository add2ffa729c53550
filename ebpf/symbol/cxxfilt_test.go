package symbol

import (
	"strings"
	"testing"

	"github.com/headwater/headwater/flame/demangle"
)

// With demangle.Full, names must equal the output of c++filt.
func TestDemangleFullMatchesCxxfilt(t *testing.T) {
	var names []string
	for _, f := range nmFunctions(t, library(t, "libstdc++.so.6"), "-D") {
		names = append(names, f.name)
	}
	// c++filt expands the abbreviations of the standard library.
	spelled := strings.NewReplacer(
		"std::basic_string<char, std::char_traits<char>, std::allocator<char> >", "std::string",
		"std::basic_istream<char, std::char_traits<char> >", "std::istream",
		"std::basic_ostream<char, std::char_traits<char> >", "std::ostream",
		"std::basic_iostream<char, std::char_traits<char> >", "std::iostream")
	abbreviate := func(name string) string { return strings.ReplaceAll(spelled.Replace(name), " >", ">") }
	different := 0
	for i, want := range strings.Split(strings.TrimSpace(run(t, strings.Join(names, "\n"), "c++filt")), "\n") {
		if got := demangle.Full.Apply(names[i]); abbreviate(got) != abbreviate(want) {
			if different++; different <= 5 {
				t.Logf("%s:\n     got %s\nc++filt %s", names[i], got, want)
			}
		}
	}
	if different*1000 > len(names) {
		t.Errorf("%d of %d names differ from c++filt's", different, len(names))
	}
}
