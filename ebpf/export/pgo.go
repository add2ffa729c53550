package export

import (
	"io"

	"github.com/google/pprof/profile"

	"github.com/headwater/headwater/ebpf/pprof"
)

// GoPGO writes a profile for go build -pgo: pprof without what the compiler does not read, so
// that the file, which is kept with the source, is small.
func GoPGO(w io.Writer, p *profile.Profile) error {
	slim := pprof.WithoutSamples(p)
	for _, s := range p.Sample {
		of := &profile.Sample{Location: s.Location, Value: s.Value}
		if n := len(s.Location); n > 1 && isNoCode(s.Location[n-1]) {
			of.Location = s.Location[:n-1]
		}
		slim.Sample = append(slim.Sample, of)
	}
	merged, err := profile.Merge([]*profile.Profile{slim})
	if err != nil {
		return err
	}
	return merged.Write(w)
}
