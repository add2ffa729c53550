package symbol

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/ulikunitz/xz/lzma"

	"github.com/headwater/headwater/ebpf/common/limit"
)

// Errors of unxz.
var (
	errXZ         = errors.New("malformed xz data")
	errXZMethod   = errors.New("xz data in a form that is not supported")
	errXZTooLarge = errors.New("xz data that exceeds the size limit")
	errXZTime     = errors.New("xz data that takes too long to decompress")
)

// maxDictionary bounds the memory for decompression in addition to the result; xz -9 needs 64 MiB.
const maxDictionary = 64 << 20

// firstBuffer is the first allocation for the result.
const firstBuffer = 64 << 10

// decompressXZ decompresses an .xz file with LZMA2 blocks (The .xz File Format, 1.2) to at most most bytes, until time
// until at the latest. It reads the containers itself, because the library would allocate dictionaries of 4 GiB if a
// header asks for them. Checksums are not verified.
func decompressXZ(data []byte, most int, until time.Time) ([]byte, error) {
	const header = 12 // magic, flags, CRC
	if len(data) < header || string(data[:6]) != "\xfd7zXZ\x00" {
		return nil, errXZ
	}
	checkSizes := [16]int{0, 4, 4, 4, 8, 8, 8, 16, 16, 16, 32, 32, 32, 64, 64, 64}
	check := checkSizes[data[7]&15]
	var out []byte
	for rest := data[header:]; ; {
		if len(rest) == 0 {
			return nil, errXZ
		}
		if rest[0] == 0 { // the index follows the last block
			return out, nil
		}
		size := (int(rest[0]) + 1) * 4
		if size > len(rest) {
			return nil, errXZ
		}
		dictionary, err := blockDictionary(rest[:size])
		if err != nil {
			return nil, err
		}
		more, used, err := unxzBlock(out, rest[size:], min(dictionary, max(most, lzma.MinDictCap)), most, until)
		if err != nil {
			return nil, err
		}
		out = more
		next := size + (used+3)&^3 + check
		if next > len(rest) {
			return nil, errXZ
		}
		rest = rest[next:]
	}
}

// unxzBlock appends a block to out and returns the number of bytes that it takes in data.
func unxzBlock(out, data []byte, dictionary, most int, until time.Time) (more []byte, used int, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: %v", errXZ, p)
		}
	}()
	in := bytes.NewReader(data)
	r, err := lzma.Reader2Config{DictCap: dictionary}.NewReader2(in)
	if err != nil {
		return nil, 0, fmt.Errorf("%w: %w", errXZ, err)
	}
	for {
		if time.Now().After(until) {
			return nil, 0, limit.Hit(limit.MiniDebug, errXZTime)
		}
		if len(out) > most {
			return nil, 0, limit.Hit(limit.MiniDebug, errXZTooLarge)
		}
		if len(out) == cap(out) {
			out = append(make([]byte, 0, min(most+1, 2*len(out)+firstBuffer)), out...)
		}
		n, err := r.Read(out[len(out):min(cap(out), len(out)+1<<20)])
		out = out[:len(out)+n]
		if err == io.EOF {
			return out, len(data) - in.Len(), nil
		}
		if err != nil {
			return nil, 0, fmt.Errorf("%w: %w", errXZ, err)
		}
	}
}

// blockDictionary returns the size of the dictionary in the header of a block: size, flags, sizes of the block if the
// flags have them, the filters.
func blockDictionary(b []byte) (int, error) {
	const (
		filters      = 0x03
		compressed   = 0x40
		uncompressed = 0x80
		lzma2        = 0x21
	)
	flags := b[1]
	b = b[2 : len(b)-4] // without the CRC
	number := func() uint64 {
		v, n := binary.Uvarint(b)
		if n <= 0 {
			n, v = len(b), 1<<63
		}
		b = b[n:]
		return v
	}
	if flags&filters != 0 {
		return 0, errXZMethod
	}
	for _, field := range []byte{compressed, uncompressed} {
		if flags&field != 0 {
			number()
		}
	}
	if number() != lzma2 || number() != 1 || len(b) == 0 {
		return 0, errXZMethod
	}
	bits := b[0]
	if bits > 40 {
		return 0, errXZ
	}
	size := uint64(2|bits&1) << (bits/2 + 11)
	if size > maxDictionary {
		return 0, limit.Hit(limit.MiniDebug, errXZTooLarge)
	}
	return int(size), nil
}
