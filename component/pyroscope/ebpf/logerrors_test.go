package ebpf

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/go-kit/log"
	"github.com/stretchr/testify/require"

	"github.com/headwater/headwater/component"
)

// Who maps 64 broken files gets a few lines, once.
func TestLogErrorsIsBounded(t *testing.T) {
	var out bytes.Buffer
	l := &loop{c: &Component{opts: component.Options{Logger: log.NewLogfmtLogger(&out)}}, logged: map[string]bool{}}
	errs := map[string]uint64{}
	for i := range 64 {
		errs[fmt.Sprintf("open /tmp/bogus%d: bad magic number", i)] = 1
	}
	l.logErrors(errs)
	require.Equal(t, loggedPerRound+1, strings.Count(out.String(), "\n"))
	require.Contains(t, out.String(), "errors=59\n")
	out.Reset()
	l.logErrors(errs)
	require.Empty(t, out.String())

	for round := range 1000 {
		l.logErrors(map[string]uint64{fmt.Sprint("a ", round): 1, fmt.Sprint("b ", round): 1})
	}
	require.Len(t, l.logged, loggedInAll)
}
