package pprof

import (
	"bytes"
	"io"
	"testing"

	"github.com/google/pprof/profile"
	"github.com/stretchr/testify/require"
)

// TestWrite checks that the output of Write reads like the output of google/pprof.
func TestWrite(t *testing.T) {
	for name, p := range map[string]*profile.Profile{"samples": written(3), "none": written(0)} {
		t.Run(name, func(t *testing.T) {
			var ours, theirs bytes.Buffer
			require.NoError(t, Write(&ours, p))
			require.NoError(t, p.Write(&theirs))
			got, err := profile.Parse(&ours)
			require.NoError(t, err)
			want, err := profile.Parse(&theirs)
			require.NoError(t, err)
			require.Equal(t, want.String(), got.String())
			require.Len(t, got.Sample, len(want.Sample))
			for i, s := range want.Sample { // String omits some fields
				require.Equal(t, []any{s.Value, s.Label, s.NumLabel, s.NumUnit},
					[]any{got.Sample[i].Value, got.Sample[i].Label, got.Sample[i].NumLabel, got.Sample[i].NumUnit})
			}
			require.Equal(t, []any{want.DocURL, want.DefaultSampleType, want.DropFrames, want.KeepFrames},
				[]any{got.DocURL, got.DefaultSampleType, got.DropFrames, got.KeepFrames})
		})
	}
}

// written returns a profile whose samples have all fields.
func written(samples int) *profile.Profile {
	b := NewBuilder(Options{Period: 1e7})
	file := &Mapping{File: "/bin/shop", BuildID: "0123456789abcdef"}
	for i := range samples {
		stack := []*Location{
			{Mapping: file, Address: uint64(0x1000 + i), Lines: []Line{{Function: "price", File: "shop.c", Line: int64(i)}}},
			{Mapping: file, Address: 0x2000, Lines: []Line{{Function: "main"}}},
		}
		b.AddAt([]int64{5, 0, 1 << 60}, stack, Weight{Value: 1e7, Samples: 3, Largest: 5e6}, []Label{
			{Key: "thread_name", Text: "http-1"}, {Key: "shop.c", Text: "price"},
			{Key: "bytes", Number: int64(-i), NumUnit: "bytes"},
		})
	}
	p := b.out.profile
	p.Comments, p.DocURL, p.DefaultSampleType = []string{"a comment"}, "https://example.com", p.SampleType[0].Type
	p.DropFrames, p.KeepFrames, p.TimeNanos, p.DurationNanos = "drop", "keep", 1, 2
	if samples > 0 {
		p.Sample = append(p.Sample, &profile.Sample{Value: []int64{1, -1}[:len(p.SampleType)]})
	}
	return p
}

// TestWriteFails checks that a full disk is an error, wherever it fills up.
func TestWriteFails(t *testing.T) {
	var whole bytes.Buffer
	p := written(2000)
	require.NoError(t, Write(&whole, p))
	for room := range whole.Len() {
		if room%97 == 0 {
			require.ErrorIs(t, Write(&fullAfter{room}, p), io.ErrShortWrite, room)
		}
	}
}

type fullAfter struct{ room int }

func (f *fullAfter) Write(b []byte) (int, error) {
	if f.room < len(b) {
		return f.room, io.ErrShortWrite
	}
	f.room -= len(b)
	return len(b), nil
}
