package pprof

import (
	"bytes"
	"testing"

	"github.com/google/pprof/profile"
	"github.com/stretchr/testify/require"
)

func TestLost(t *testing.T) {
	cpu := &profile.ValueType{Type: "cpu", Unit: "nanoseconds"}
	p := &profile.Profile{
		SampleType: []*profile.ValueType{cpu}, PeriodType: cpu, Period: 1, Comments: []string{"headwater record: all"},
	}
	due, lost := LostOf(p)
	require.Zero(t, due+lost)
	SetLost(p, 900, 1)
	SetLost(p, 1000, 34)
	var file bytes.Buffer
	require.NoError(t, p.Write(&file))
	read, err := profile.Parse(&file)
	require.NoError(t, err)
	require.Equal(t, []string{"headwater record: all", "headwater lost: 34 of 1000 samples due"}, read.Comments)
	due, lost = LostOf(read)
	require.Equal(t, []uint64{1000, 34}, []uint64{due, lost})

	other := &profile.Profile{SampleType: p.SampleType, PeriodType: cpu, Period: 1}
	SetLost(other, 500, 0)
	merged, err := profile.Merge([]*profile.Profile{read, other})
	require.NoError(t, err)
	due, lost = LostOf(merged)
	require.Equal(t, []uint64{1500, 34}, []uint64{due, lost})

	for _, bad := range []string{"", "-1 of 5 samples due", "6 of 5 samples due"} {
		due, lost = LostOf(&profile.Profile{Comments: []string{"headwater lost: " + bad}})
		require.Zero(t, due+lost, bad)
	}
}
