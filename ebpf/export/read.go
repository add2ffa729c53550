package export

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"regexp"

	"github.com/google/pprof/profile"
)

// maxFile bounds a profile that is read, as it is and decompressed.
const maxFile = 1 << 30

var errTooLarge = fmt.Errorf("it has more than %d MiB", maxFile>>20)

// Parse decodes a profile in pprof's format, gzip-compressed or not. Decompressed it has 1 GiB at most.
func Parse(data []byte) (*profile.Profile, error) {
	if bytes.HasPrefix(data, []byte{0x1f, 0x8b}) {
		unzip, err := gzip.NewReader(bytes.NewReader(data))
		if err != nil {
			return nil, err
		}
		if data, err = ReadAll(unzip); err != nil {
			return nil, err
		}
	}
	p, err := profile.ParseUncompressed(data)
	if err != nil {
		return nil, err
	}
	if len(p.SampleType) == 0 {
		return nil, errors.New("it has no type of samples")
	}
	return p, p.CheckValid()
}

// ReadAll reads a profile to decode later, 1 GiB at most.
func ReadAll(r io.Reader) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxFile+1))
	if err == nil && len(data) > maxFile {
		err = errTooLarge
	}
	return data, err
}

// Select leaves in p the samples that have a function, file or binary that fits focus, and none
// that fits ignore; nil is no condition. It returns an error if no sample is left.
func Select(p *profile.Profile, focus, ignore *regexp.Regexp) error {
	focused, _, _, _ := p.FilterSamplesByName(focus, ignore, nil, nil)
	switch {
	case focus != nil && !focused:
		return fmt.Errorf("no sample has a function that fits %q", focus)
	case len(p.Sample) == 0:
		return errors.New("there are no samples")
	}
	return nil
}
