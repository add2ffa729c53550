package export

import (
	"io"

	"github.com/google/pprof/profile"

	"github.com/headwater/headwater/flame/pprof"
)

// GoPGO writes a profile for go build -pgo. It omits the parts that the compiler does not read, to keep the file small:
// it is stored with the source code.
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
