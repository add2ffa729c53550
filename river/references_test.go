package river

import (
	"strings"
	"testing"

	"github.com/grafana/river/parser"
	"github.com/stretchr/testify/require"
)

func TestTraversals(t *testing.T) {
	for expression, want := range map[string]string{
		`1`:                          "",
		`a`:                          "a",
		`a.b.c`:                      "a.b.c",
		`a.b[0].c`:                   "a.b",
		`a["x"].c`:                   "a",
		`a[b.c].d`:                   "a b.c",
		`f(a.b, c.d)`:                "f a.b c.d",
		`m.f(a.b).c`:                 "m.f a.b",
		`f().x`:                      "f",
		`[a.b, {x = c.d, "y" = e}]`:  "a.b c.d e",
		`{x = a.b}.x`:                "a.b",
		`a.b + -c.d * (e.f)`:         "a.b c.d e.f",
		`(a.b).c`:                    "a.b.c",
		`((a)).b`:                    "a.b",
		`a.b.c == "a.b" && !d.e`:     "a.b.c d.e",
		`"a.b"`:                      "",
		`[[a.x][0], [b.y][c.z]][1]`:  "a.x b.y c.z",
		`f(g(a.b.c)[d.e]).h(i.j)[k]`: "f g a.b.c d.e i.j k",
	} {
		file, err := parser.ParseFile("", []byte("x = "+expression))
		require.NoError(t, err, expression)
		var got []string
		for _, found := range traversals(file.Body) {
			got = append(got, found.String())
		}
		require.Equal(t, want, strings.Join(got, " "), expression)
	}
}
