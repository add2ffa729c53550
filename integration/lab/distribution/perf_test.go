package main

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/headwater/headwater/integration/testkit/walks"
)

func TestParseScript(t *testing.T) {
	const text = `a program 24108  2409.197129123:
	            c2c5 water::Mill<double>::turn (int) (/no/such (file)/mill)
	            b305 main (/no/such/mill)

mill 24108  2410.5:
	           1000 __vdso_clock_gettime ([vdso])
	ffffffffffffff [unknown] ([unknown])

`
	got, err := parseScript([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	want := []stack{
		{2409197129123, []frame{{"mill", 0xc2c5}, {"mill", 0xb305}}},
		{2410500000000, []frame{{walks.VDSO, 0x1000}, {"[unknown]", 0xffffffffffffff}}},
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(stack{}, frame{})); diff != "" {
		t.Error(diff)
	}
	for _, bad := range []string{"mill 1 x.5:\n", "mill 1 1.5:\n xyz main (/mill)\n"} {
		if _, err := parseScript([]byte(bad)); err == nil {
			t.Errorf("%q is read", bad)
		}
	}
}

func TestKinds(t *testing.T) {
	s := stack{frames: []frame{{"libc.so.6", 7}, {"mill", 2}, {"mill", 1}}}
	if got, want := s.kinds(), []string{"mill+0x1 > ", "mill+0x1 > mill+0x2 > ",
		"mill+0x1 > mill+0x2 > libc.so.6"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
