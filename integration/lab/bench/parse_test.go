package main

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestParseFields(t *testing.T) {
	fdinfo := "pos:\t0\nflags:\t02000002\nprog_type:\t7\nprog_jited:\t1\nprog_tag:\t1502062464e4f498\n" +
		"memlock:\t12288\nrun_time_ns:\t6053273\nrun_cnt:\t552\n"
	status := "Name:\tx: 7\nUmask:\t0022\nVmHWM:\t   84920 kB\nVmRSS:\t   65536 kB\nCpus_allowed_list:\t0-1\nKthread:\n"
	for _, test := range []struct {
		text string
		want map[string]uint64
	}{
		{fdinfo, map[string]uint64{"pos": 0, "flags": 2000002, "prog_type": 7, "prog_jited": 1, "memlock": 12288,
			"run_time_ns": 6053273, "run_cnt": 552}},
		{status, map[string]uint64{"Umask": 22, "VmHWM": 84920, "VmRSS": 65536}},
		{"", map[string]uint64{}},
	} {
		if got := parseFields(test.text); !maps.Equal(got, test.want) {
			t.Errorf("%q: %v, want %v", test.text, got, test.want)
		}
	}
}

func TestExpand(t *testing.T) {
	got := expand("-rate {rate}  -to={sink}:{sink}", strings.NewReplacer("{rate}", "99", "{sink}", "a b"))
	if want := []string{"-rate", "99", "-to=a b:a b"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestParseDepths(t *testing.T) {
	if got, err := parseDepths("1,21"); err != nil || !slices.Equal(got, []int{1, 21}) {
		t.Errorf("%v, %v", got, err)
	}
	for _, bad := range []string{"", "1,", "0", "x"} {
		if got, err := parseDepths(bad); err == nil {
			t.Errorf("%q: %v, want an error", bad, got)
		}
	}
}

func TestMedian(t *testing.T) {
	for _, test := range []struct {
		values []float64
		want   float64
	}{{nil, 0}, {[]float64{3}, 3}, {[]float64{9, 1, 2}, 2}, {[]float64{4, 1, 2, 8}, 3}} {
		if got := median(test.values); got != test.want {
			t.Errorf("%v: %v, want %v", test.values, got, test.want)
		}
	}
}

// TestCheckOptions: options that would divide by zero, or allow no measurement, are refused with the name of their
// flag.
func TestCheckOptions(t *testing.T) {
	good := options{rate: 99, rounds: 1, interval: 5 * time.Second, time: time.Second, warm: 8 * time.Second}
	if err := good.check(); err != nil {
		t.Error(err)
	}
	for flag, spoil := range map[string]func(*options){
		"-rate":     func(o *options) { o.rate = 0 },
		"-rounds":   func(o *options) { o.rounds = -1 },
		"-interval": func(o *options) { o.interval = 0 },
		"-time":     func(o *options) { o.time = -time.Second },
		"-warm":     func(o *options) { o.warm = 6 * time.Second },
	} {
		bad := good
		spoil(&bad)
		if err := bad.check(); err == nil || !strings.HasPrefix(err.Error(), flag+" ") {
			t.Errorf("%s: got %v", flag, err)
		}
	}
}
