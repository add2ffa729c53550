package server

import (
	"net/http"
	"testing"
	"time"

	"github.com/google/pprof/profile"
	"github.com/stretchr/testify/require"
)

// TestLinesOfFunction: api/lines has what the samples of the same selection have at each line of a function.
func TestLinesOfFunction(t *testing.T) {
	at := time.Now()
	server := serve(t, testPage(t, at))
	p, err := profile.ParseData(fioProfile(t, at).Data)
	require.NoError(t, err)
	function := p.Function[0].Name
	self, lines := int64(0), map[int64]bool{}
	for _, s := range p.Sample {
		for i, l := range s.Location {
			for j, line := range l.Line {
				if line.Function.Name != function {
					continue
				}
				lines[line.Line] = true
				if i == 0 && j == 0 {
					self += s.Value[len(s.Value)-1]
				}
			}
		}
	}
	const query = "lines?range=last&target=fio&function="
	got := getJSON[linesAnswer](t, server.URL+prefix, query+function)
	require.Len(t, got.Lines, len(lines))
	sum := int64(0)
	for _, line := range got.Lines {
		require.True(t, lines[line.Line], line)
		require.GreaterOrEqual(t, line.Total, line.Self)
		sum += line.Self
	}
	require.Equal(t, self, sum)
	require.Equal(t, "nanoseconds", got.Unit)
	require.GreaterOrEqual(t, got.All, got.Total)
	for path, status := range map[string]int{"nothing": http.StatusNotFound, "": http.StatusBadRequest} {
		answer, _ := get(t, server.URL+prefix+"/api/"+query+path)
		require.Equal(t, status, answer.StatusCode)
	}
}
