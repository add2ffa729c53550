package spool

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"time"
)

// A record in the log: a version, the place, the time in nanoseconds since 1970,
// the user's size, and the data.
const (
	recordVersion = 1
	headerBytes   = 1 + 8 + 8 + 8
)

func encode(r Record) []byte {
	out := make([]byte, headerBytes, headerBytes+len(r.Data))
	out[0] = recordVersion
	binary.BigEndian.PutUint64(out[1:], r.Seq)
	binary.BigEndian.PutUint64(out[9:], uint64(r.Taken.UnixNano()))
	binary.BigEndian.PutUint64(out[17:], uint64(r.Size))
	return append(out, r.Data...)
}

// decode reads a record. Its data are a copy.
func decode(b []byte) (Record, error) {
	r, err := decodeHeader(b)
	if err == nil {
		r.Data = bytes.Clone(b[headerBytes:])
	}
	return r, err
}

// decodeHeader reads all but the data.
func decodeHeader(b []byte) (Record, error) {
	if len(b) < headerBytes {
		return Record{}, fmt.Errorf("a record of %d bytes", len(b))
	}
	if b[0] != recordVersion {
		return Record{}, fmt.Errorf("a record of version %d, this is version %d", b[0], recordVersion)
	}
	size := binary.BigEndian.Uint64(b[17:])
	if size > 1<<40 {
		return Record{}, fmt.Errorf("a record of size %d", size)
	}
	return Record{
		Seq:   binary.BigEndian.Uint64(b[1:]),
		Taken: time.Unix(0, int64(binary.BigEndian.Uint64(b[9:]))),
		Size:  int(size),
	}, nil
}
