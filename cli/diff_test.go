package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/pprof/profile"
	"github.com/stretchr/testify/require"

	"github.com/headwater/headwater/flame/tree"
)

func runDiff(args ...string) (out string, code int, err error) {
	var b bytes.Buffer
	cmd := Command()
	cmd.SetArgs(append([]string{"diff"}, args...))
	cmd.SetOut(&b)
	cmd.SetErr(&b)
	err = cmd.Execute()
	return b.String(), exitCode(err), err
}

func TestDiff(t *testing.T) {
	folder := t.TempDir()
	write := func(name, text string) string {
		name = filepath.Join(folder, name)
		require.NoError(t, os.WriteFile(name, []byte(text), 0o600))
		return name
	}
	base := write("base", "main;work 1000\nmain;other 3000\n")
	after := write("after", "main;work 1300\nmain;other 3010\nmain;fresh 60\n")

	out, code, err := runDiff("--per", "run", base, after)
	require.NoError(t, err)
	require.Zero(t, code)
	require.Contains(t, out, `
base  new   change  between          function
1000  1300  +30 %   +12 % and +51 %  work
0     60    new     at least +541 %  fresh

`)
	require.Contains(t, out, "2 of 3 functions certainly changed by more than 5 %.")

	out, _, _ = runDiff("--per", "run", "--top", "1", base, after)
	require.Contains(t, out, "--top 2 shows the other 1.")
	out, _, _ = runDiff("--per", "run", "--all", base, after)
	require.Contains(t, out, "+0 % ?")
	out, _, _ = runDiff("--per", "run", base, base)
	require.Contains(t, out, "None of 2 functions certainly changed by more than 5 %.")
	out, _, _ = runDiff("--per", "run", base+","+base, base+","+base)
	require.Contains(t, out, "Runs of one side vary by 0.0 %.")

	_, code, err = runDiff("--per", "run", "--check", base, after)
	require.Equal(t, 1, code)
	require.ErrorContains(t, err, "2 functions became more expensive")
	_, code, err = runDiff("--per", "run", "--check", after, base)
	require.Zero(t, code)
	require.NoError(t, err)
}

func TestDiffRefuses(t *testing.T) {
	for want, args := range map[string][]string{
		"/none: no such file":                       {"/none", "/none"},
		"only one of the profiles can be read":      {"-", "-"},
		`per "year" is unknown, valid values`:       {"--per", "year", "a", "b"},
		"confidence must be between 0 and 1":        {"--confidence", "2", "a", "b"},
		"--top must not be negative, got -1":        {"--top", "-1", "a", "b"},
		"the smallest change must not be negative":  {"--at-least", "-1", "a", "b"},
		"the largest share of lost samples must be": {"--max-lost", "1", "a", "b"},
		`a file that ends in .html, got "x.svg"`:    {"-o", "x.svg", "a", "b"},
		"remove --total":                            {"-o", "x.html", "--total", "a", "b"},
		"remove --output and --total":               {"--by", "cpu", "--total", "a", "b"},
	} {
		_, code, err := runDiff(args...)
		require.ErrorContains(t, err, want)
		require.Equal(t, 2, code)
	}
}

// TestDiffByLabel: the values of a label are compared in place of functions.
func TestDiffByLabel(t *testing.T) {
	write := func(values ...int64) string {
		f := &profile.Function{ID: 1, Name: "work"}
		l := &profile.Location{ID: 1, Line: []profile.Line{{Function: f}}}
		p := &profile.Profile{
			SampleType: []*profile.ValueType{{Type: "samples", Unit: "count"}}, DurationNanos: 10e9,
			Function: []*profile.Function{f}, Location: []*profile.Location{l},
		}
		for node, n := range values {
			p.Sample = append(p.Sample, &profile.Sample{
				Location: []*profile.Location{l}, Value: []int64{n}, Label: map[string][]string{"numa_node": {fmt.Sprint(node)}},
			})
		}
		name := filepath.Join(t.TempDir(), "p.pb.gz")
		file, err := os.Create(name)
		require.NoError(t, err)
		require.NoError(t, errors.Join(p.Write(file), file.Close()))
		return name
	}
	base, after := write(2000, 2000), write(1000, 3000)
	out, _, err := runDiff("--by", "numa_node", base, after)
	require.NoError(t, err)
	require.Contains(t, out, `
base  new   change  between          numa_node
0.5   0.25  -50 %   -56 % and -43 %  0
0.5   0.75  +50 %   +36 % and +66 %  1

Values are shares of all count, for all functions.`)
	require.Contains(t, out, "2 of 2 values of numa_node certainly changed by more than 5 %.")
	_, code, err := runDiff("--by", "numa_node", "--check", base, after)
	require.Equal(t, 1, code)
	require.ErrorContains(t, err, "1 value of numa_node became more expensive")
	_, code, err = runDiff("--by", "cpu", base, after)
	require.Equal(t, 2, code)
	require.ErrorContains(t, err, base+`: no sample has the label "cpu": headwater record --label cpu writes it`)
}

// TestDiffHTML: the file has both values of each function, and the certain changes.
func TestDiffHTML(t *testing.T) {
	folder := t.TempDir()
	base, after := filepath.Join(folder, "base"), filepath.Join(folder, "after")
	require.NoError(t, os.WriteFile(base, []byte("main;work 1000\nmain;other 3000\n"), 0o600))
	require.NoError(t, os.WriteFile(after, []byte("main;work 1300\nmain;other 3000\n"), 0o600))
	html := filepath.Join(folder, "diff.html")
	out, _, err := runDiff("--per", "run", "-o", html, base, after)
	require.NoError(t, err)
	require.Contains(t, out, "+30 %")
	text, err := os.ReadFile(html)
	require.NoError(t, err)
	require.Contains(t, string(text), "1 of 2 functions certainly changed by more than 5 %.")
	_, data, _ := bytes.Cut(text, []byte(`id="flame-data">`))
	data, _, found := bytes.Cut(data, []byte("</script>"))
	require.True(t, found)
	var tree tree.Tree
	require.NoError(t, json.Unmarshal(data, &tree))
	require.Equal(t, "run", tree.Diff.Per)
	require.Equal(t, []int64{83, 83, 60, 23}, tree.Nodes.Total) // hundreds
	require.Equal(t, []int64{40, 40, 30, 10}, tree.Nodes.BaseTotal)
	for i, name := range tree.Frames.Name {
		at := tree.Diff.Functions[i]
		if tree.Strings[name] == "main" { // it has no self value
			require.Equal(t, -1, at)
			continue
		}
		require.Equal(t, tree.Strings[name] == "work", tree.Diff.Changes[at].Certain)
	}
}
