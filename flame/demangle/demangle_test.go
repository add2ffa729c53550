package demangle

import (
	"strings"
	"testing"
)

func TestDemangle(t *testing.T) {
	for _, tt := range []struct{ name, simplified, templates, full string }{
		{"main", "main", "main", "main"},
		{"_start", "_start", "_start", "_start"},
		{"_D3std5stdio7writelnFZv", "_D3std5stdio7writelnFZv", "_D3std5stdio7writelnFZv", "_D3std5stdio7writelnFZv"},
		{"$s4main3fooyyF", "$s4main3fooyyF", "$s4main3fooyyF", "$s4main3fooyyF"},
		{"_Rb_tree_increment", "_Rb_tree_increment", "_Rb_tree_increment", "_Rb_tree_increment"},
		{"_Znonsense", "_Znonsense", "_Znonsense", "_Znonsense"},
		{"_ZN3foo3barEi", "foo::bar", "foo::bar", "foo::bar(int)"},
		{"_ZNSt6vectorIiSaIiEE9push_backERKi", "std::vector::push_back",
			"std::vector<int, std::allocator<int> >::push_back",
			"std::vector<int, std::allocator<int> >::push_back(int const&)"},
		{"_ZN3foo3barEi.isra.0", "foo::bar", "foo::bar", "foo::bar(int)"},
		{"_ZN4core3fmt9Formatter3pad17h0123456789abcdefE", "core::fmt::Formatter::pad", "core::fmt::Formatter::pad",
			"core::fmt::Formatter::pad"},
		{"_RNvCskwGfYPst2Cb_3foo16example_function", "foo::example_function", "foo::example_function",
			"foo::example_function"},
		{"_RINvNtCs6xxl1lAjzDf_1a6shapes5twiceNCNvB4_4main0EB4_", "a::shapes::twice",
			"a::shapes::twice::<a::main::{closure#0}>", "a::shapes::twice::<a::main::{closure#0}>"},
		{"_RNvCskwGfYPst2Cb_3foo16example_function.llvm.123456", "foo::example_function", "foo::example_function",
			"foo::example_function"},
		{"_ZN4core3ptr85drop_in_place$LT$std..rt..lang_start$LT$$LP$$RP$$GT$..$u7b$$u7b$closure$u7d$$u7d$$GT$" +
			"17h0123456789abcdefE",
			"core::ptr::drop_in_place<std::rt::lang_start<()>::{{closure}}>",
			"core::ptr::drop_in_place<std::rt::lang_start<()>::{{closure}}>",
			"core::ptr::drop_in_place<std::rt::lang_start<()>::{{closure}}>"},
		{"_ZZ4mainENKUlvE_clEv", "main::{lambda()#1}::operator()", "main::{lambda()#1}::operator()",
			"main::{lambda()#1}::operator()() const"},
	} {
		for mode, want := range map[Mode]string{None: tt.name, Simplified: tt.simplified,
			Templates: tt.templates, Full: tt.full} {
			if got := mode.Apply(tt.name); got != want {
				t.Errorf("%v.Apply(%s) = %s, want %s", mode, tt.name, got, want)
			}
		}
	}
}

func TestParse(t *testing.T) {
	for _, name := range []string{"none", "simplified", "templates", "full"} {
		if mode, err := Parse(name); err != nil || mode.String() != name {
			t.Errorf("%s: %v, %v", name, mode, err)
		}
	}
	if _, err := Parse("all"); err == nil || !strings.Contains(err.Error(), `"all"`) {
		t.Errorf("error %v", err)
	}
}

func TestDemangleOfPlainNamesAllocatesNothing(t *testing.T) {
	if n := testing.AllocsPerRun(100, func() { Full.Apply("_IO_file_underflow") }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

// Each S_ doubles the preceding name.
func TestDemangleIsBounded(t *testing.T) {
	name := "_Z1fI" + strings.Repeat("1aIS", 60) + "_" + strings.Repeat("S_E", 60) + "Evv"
	if got := Full.Apply(name); len(got) > 1<<maxDemangled {
		t.Errorf("%d bytes", len(got))
	}
	if got := Full.Apply("_Z" + strings.Repeat("P", maxMangled)); len(got) > 2*maxMangled {
		t.Errorf("%d bytes", len(got))
	}
}
