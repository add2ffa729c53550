package relabel

import (
	"testing"

	"github.com/grafana/river"
	"github.com/stretchr/testify/require"
)

func decode(t *testing.T, text string) Program {
	t.Helper()
	var args struct {
		Rules []*Config `river:"rule,block,optional"`
	}
	require.NoError(t, river.Unmarshal([]byte(text), &args))
	return Compile(args.Rules)
}

// The expected results follow Prometheus' documentation of relabel_config.
func TestActions(t *testing.T) {
	in := map[string]string{"a": "foo", "b": "Bar", "__meta_x_app": "web", "n": "1\n2"}
	tests := map[string]struct {
		rules   string
		want    map[string]string // changes; "" is removed
		dropped int               // index of the rule, -1 if kept
	}{
		"none": {"", nil, -1},
		"replace": {`rule { source_labels = ["a", "b"] target_label = "c" }`,
			map[string]string{"c": "foo;Bar"}, -1},
		"separator, groups": {`rule {
			source_labels = ["a", "b"]
			separator     = "/"
			regex         = "(.)oo/(.*)"
			replacement   = "$2-$1"
			target_label  = "c"
		}`, map[string]string{"c": "Bar-f"}, -1},
		"anchored": {`rule { source_labels = ["a"] regex = "fo" replacement = "x" target_label = "c" }`, nil, -1},
		"line end": {`rule { source_labels = ["n"] regex = "1.2" replacement = "x" target_label = "c" }`,
			map[string]string{"c": "x"}, -1},
		"replace by none": {`rule { source_labels = ["a"] replacement = "" target_label = "a" }`,
			map[string]string{"a": ""}, -1},
		"keep":     {`rule { source_labels = ["a"] regex = "f.+" action = "keep" }`, nil, -1},
		"not kept": {`rule { source_labels = ["a"] regex = "x" action = "keep" }`, nil, 0},
		"second drops": {`rule { source_labels = ["a"] target_label = "c" }
			rule { source_labels = ["c"] regex = "foo" action = "drop" }
			rule { source_labels = ["c"] regex = "x" action = "keep" }`, nil, 1},
		"keepequal": {`rule { source_labels = ["a"] target_label = "b" action = "keepequal" }`, nil, 0},
		"dropequal": {`rule { source_labels = ["a"] target_label = "a" action = "dropequal" }`, nil, 0},
		"labelmap":  {`rule { regex = "__meta_x_(.+)" action = "labelmap" }`, map[string]string{"app": "web"}, -1},
		"labeldrop": {`rule { regex = "a|b" action = "labeldrop" }`, map[string]string{"a": "", "b": ""}, -1},
		"labelkeep": {`rule { regex = "a|b" action = "labelkeep" }`, map[string]string{"__meta_x_app": "", "n": ""}, -1},
		"lowercase": {`rule { source_labels = ["b"] target_label = "b" action = "lowercase" }`,
			map[string]string{"b": "bar"}, -1},
		"uppercase": {`rule { source_labels = ["b"] target_label = "b" action = "uppercase" }`,
			map[string]string{"b": "BAR"}, -1},
		"hashmod": {`rule { source_labels = ["a"] modulus = 1 target_label = "c" action = "hashmod" }`,
			map[string]string{"c": "0"}, -1},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			out, dropped := decode(t, lines(test.rules)).Map(in)
			require.Equal(t, test.dropped, dropped)
			if dropped >= 0 {
				require.Nil(t, out)
				return
			}
			want := map[string]string{}
			for name, value := range in {
				want[name] = value
			}
			for name, value := range test.want {
				want[name] = value
				if value == "" {
					delete(want, name)
				}
			}
			require.Equal(t, want, out)
		})
	}
}

// lines breaks a rule that is written on one line, as River wants it.
func lines(rules string) string {
	out := ""
	inString, inList := false, false
	for i, r := range rules {
		switch {
		case r == '"':
			inString = !inString
		case inString:
		case r == '[':
			inList = true
		case r == ']':
			inList = false
		case r == '{':
			out += "{\n"
			continue
		case r == '}':
			out += "\n}\n"
			continue
		case r == ' ' && !inList && i > 0 &&
			(rules[i-1] == '"' || rules[i-1] == ']' || rules[i-1] >= '0' && rules[i-1] <= '9'):
			out += "\n"
			continue
		}
		out += string(r)
	}
	return out
}

func TestRefused(t *testing.T) {
	for _, test := range [][2]string{
		{`rule { action = "hashmod" target_label = "a" }`, "non-zero modulus"},
		{`rule { source_labels = ["a"] }`, "requires 'target_label'"},
		{`rule { regex = "(" target_label = "a" }`, "missing closing )"},
		{`rule { action = "explode" }`, `unknown relabel action "explode"`},
		{`rule { action = "labeldrop" regex = "a" source_labels = ["b"] }`, "requires only 'regex'"},
		{`rule { action = "lowercase" target_label = "0" }`, "invalid 'target_label'"},
		{`rule { action = "dropequal" source_labels = ["a"] target_label = "b" regex="x" }`, "requires only 'source_labels'"},
	} {
		rule, want := test[0], test[1]
		var args struct {
			Rules []*Config `river:"rule,block,optional"`
		}
		require.ErrorContains(t, river.Unmarshal([]byte(lines(rule)), &args), want, rule)
	}
}

func TestString(t *testing.T) {
	var args struct {
		Rules []*Config `river:"rule,block,optional"`
	}
	require.NoError(t,
		river.Unmarshal([]byte(lines(
			`rule { source_labels = ["a", "b"] regex = "x" action = "keep" } rule { target_label = "c" }`)), &args))
	require.Equal(t, `keep [a, b] regex "x"`, args.Rules[0].String())
	require.Equal(t, "replace target_label c", args.Rules[1].String())
}
