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

// maxFile is the maximum size of a profile to read, both compressed and decompressed.
const maxFile = 1 << 30

var errTooLarge = fmt.Errorf("it has more than %d MiB", maxFile>>20)

// Parse decodes a profile in pprof's format, gzip-compressed or not. Its decompressed size is limited to 1 GiB.
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
		return nil, errors.New("the profile has no sample type")
	}
	return p, p.CheckValid()
}

// ReadAll reads a profile of at most 1 GiB, to decode later.
func ReadAll(r io.Reader) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxFile+1))
	if err == nil && len(data) > maxFile {
		err = errTooLarge
	}
	return data, err
}

// Select keeps in p the samples with a function, file or binary that matches focus, and without any that matches
// ignore; nil is no condition. It returns an error if no sample is left.
func Select(p *profile.Profile, focus, ignore *regexp.Regexp) error {
	focused, _, _, _ := p.FilterSamplesByName(focus, ignore, nil, nil)
	switch {
	case focus != nil && !focused:
		return fmt.Errorf("no sample has a function that matches %q", focus)
	case len(p.Sample) == 0:
		return errors.New("there are no samples")
	}
	return nil
}
