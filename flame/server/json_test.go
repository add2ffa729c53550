package server

import (
	"bytes"
	"encoding/json"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headwater/headwater/flame/tree"
)

// TestEncodeFields: the output of encodeFields equals encoding/json's.
func TestEncodeFields(t *testing.T) {
	b := tree.NewBuilder(nil)
	host := hostMaker{functions: 30, again: 0.9, depth: 10, random: rand.New(rand.NewPCG(1, 2))}
	require.NoError(t, b.Add(host.profile(100)))
	type inner struct {
		A int `json:"a"`
		b int
	}
	nothing, found := (*int64)(nil), int64(0)
	for _, of := range []any{
		treeAnswer{flameAbout{Target: "<a>", From: time.Now(), Labels: []string{}}, "", b.Tree(tree.Options{})},
		&treeAnswer{flameAbout{To: time.Now()}, "0123", b.Tree(tree.Options{})},
		topAnswer{Functions: []tree.Function{{Name: "f", Self: 1}}, Found: &found},
		topAnswer{},
		topAnswer{Functions: slices.Repeat([]tree.Function{{Name: "[\n]"}, {Binary: "]"}}, chunk)},
		tree.Nodes{Frame: make([]int32, chunk), Depth: make([]int32, chunk+1), Line: make([]int32, 3*chunk)},
		tree.Nodes{Frame: []int32{-1, 1 << 30}, Self: []int64{math.MinInt64, math.MaxInt64}, Total: []int64{}},
		&tree.Nodes{Total: slices.Repeat([]int64{-1234567890123}, 500)},
		struct{ Text []byte }{bytes.Repeat([]byte("x"), 2*chunk)},
		linesAnswer{Lines: []tree.Line{{File: "a.c", Line: 3}}},
		seriesAnswer{Values: [][]int64{{1, 2}, {}}},
		&diffAnswer{Tree: b.Tree(tree.Options{})},
		struct {
			inner
			First  string  `json:"first,omitempty"`
			In     *inner  `json:"in"`
			Absent *inner  `json:"absent,omitempty"`
			None   *inner  `json:"none"`
			Zero   float64 `json:"zero,omitempty"`
			Number *int64  `json:"number"`
			Plain  map[string]int
			Left   int   `json:"-"`
			All    []any `json:",omitempty"`
		}{In: &inner{3, 4}, Number: nothing, Plain: map[string]int{"x": 1}},
		struct{}{},
	} {
		want, err := json.Marshal(of)
		require.NoError(t, err)
		var got bytes.Buffer
		require.NoError(t, encodeFields(&got, of))
		require.Equal(t, string(want), got.String())
	}
	require.Error(t, encodeFields(&bytes.Buffer{}, struct{ F func() }{}))
}
