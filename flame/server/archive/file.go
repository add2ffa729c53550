package archive

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
)

// A file starts with magic and the size of the header in 4 bytes, big-endian. The header is JSON, compressed with gzip,
// which adds a checksum. The data of the profiles follows, in their order.
const (
	magic      = "hwround1"
	beforeHead = len(magic) + 4
	maxHead    = 16 << 20 // compressed
	maxText    = 64 << 20 // decompressed
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// header describes the profiles of a file.
type header[T any] struct {
	Profiles []described[T] `json:"profiles"`
}

// described is a profile without its data.
type described[T any] struct {
	About T      `json:"about"`
	Size  int64  `json:"size"`
	Sum   uint32 `json:"sum"` // CRC-32C of the data
}

// Profile is a profile to write.
type Profile[T any] struct {
	About T
	Data  []byte
}

// Stored is a profile on disk.
type Stored[T any] struct {
	About T
	Size  int64 // of its data

	sum    uint32
	at     int64
	round  Round
	holder *Archive[T]
}

// Write writes a round. It removes the oldest rounds as needed to make room.
func (a *Archive[T]) Write(r Round, profiles []Profile[T]) error {
	a.writing.Lock()
	defer a.writing.Unlock()
	head, err := encodeHeader(profiles)
	if err != nil {
		return err
	}
	size := int64(len(head))
	for _, p := range profiles {
		size += int64(len(p.Data))
	}
	if size = onDisk(size); size > a.Usage().MaxBytes {
		return fmt.Errorf("%w: %d of %d bytes", ErrTooBig, size, a.Usage().MaxBytes)
	}
	if err := a.makeRoom(size); err != nil {
		return err
	}
	err = a.writeFile(r, head, profiles)
	if errors.Is(err, fs.ErrNotExist) { // the directory has been removed
		if err = os.MkdirAll(a.dir, 0o700); err == nil {
			err = a.writeFile(r, head, profiles)
		}
	}
	if err != nil {
		return err
	}
	a.addFile(file{Round: r, bytes: size})
	return nil
}

// encodeHeader returns the first part of a file.
func encodeHeader[T any](profiles []Profile[T]) ([]byte, error) {
	var head header[T]
	for _, p := range profiles {
		head.Profiles = append(head.Profiles,
			described[T]{About: p.About, Size: int64(len(p.Data)), Sum: crc32.Checksum(p.Data, castagnoli)})
	}
	var out bytes.Buffer
	out.WriteString(magic)
	out.Write(make([]byte, beforeHead-len(magic)))
	packed := gzip.NewWriter(&out)
	if err := json.NewEncoder(packed).Encode(head); err != nil {
		return nil, err
	}
	if err := packed.Close(); err != nil {
		return nil, err
	}
	size := out.Len() - beforeHead
	if size > maxHead {
		return nil, fmt.Errorf("%w: its description of profiles has %d bytes", ErrTooBig, size)
	}
	binary.BigEndian.PutUint32(out.Bytes()[len(magic):], uint32(size))
	return out.Bytes(), nil
}

// writeFile writes the file of a round under a temporary name and renames it.
func (a *Archive[T]) writeFile(r Round, head []byte, profiles []Profile[T]) (err error) {
	f, err := os.CreateTemp(a.dir, "*"+tmpSuffix)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			os.Remove(f.Name())
		}
	}()
	_, err = f.Write(head)
	for _, p := range profiles {
		if err == nil {
			_, err = f.Write(p.Data)
		}
	}
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return err
	}
	return os.Rename(f.Name(), filepath.Join(a.dir, r.fileName()))
}

// Read returns the profiles of a round, without their data. Its error is ErrGone.
func (a *Archive[T]) Read(r Round) ([]Stored[T], error) {
	packed, size, err := a.readPacked(r)
	if err != nil {
		return nil, a.failed(r, err)
	}
	stored, err := readHeader[T](packed, size, &a.unpackers)
	if err != nil {
		return nil, a.failed(r, err)
	}
	for i := range stored {
		stored[i].round, stored[i].holder = r, a
	}
	return stored, nil
}

// readPacked returns the header of a round's file, compressed, and the size of the file.
func (a *Archive[T]) readPacked(r Round) (packed []byte, size int64, err error) {
	a.reading.Lock()
	defer a.reading.Unlock()
	f, err := os.Open(filepath.Join(a.dir, r.fileName()))
	if err != nil {
		return nil, 0, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, 0, err
	}
	packed, err = packedHeader(f, info.Size())
	return packed, info.Size(), err
}

// packedHeader reads the header of a file of that size, compressed.
func packedHeader(f io.Reader, size int64) ([]byte, error) {
	begin := make([]byte, beforeHead)
	if _, err := io.ReadFull(f, begin); err != nil {
		return nil, fmt.Errorf("it is torn: its start: %w", err)
	}
	if string(begin[:len(magic)]) != magic {
		return nil, errors.New("it is no round of profiles of this version")
	}
	headSize := int64(binary.BigEndian.Uint32(begin[len(magic):]))
	if headSize > maxHead || int64(beforeHead)+headSize > size {
		return nil, fmt.Errorf("it is torn: a header of %d bytes in a file of %d", headSize, size)
	}
	packed := make([]byte, headSize)
	if _, err := io.ReadFull(f, packed); err != nil {
		return nil, fmt.Errorf("it is torn: its header: %w", err)
	}
	return packed, nil
}

// readHeader returns the profiles of a file whose size is size.
func readHeader[T any](packed []byte, size int64, unpackers *sync.Pool) ([]Stored[T], error) {
	head, err := decodeHeader[T](packed, unpackers)
	if err != nil {
		return nil, fmt.Errorf("it is damaged: its header: %w", err)
	}
	at := int64(beforeHead + len(packed))
	stored := make([]Stored[T], 0, len(head.Profiles))
	for _, p := range head.Profiles {
		if p.Size < 0 || p.Size > size-at {
			return nil, fmt.Errorf("it is torn: a profile of %d bytes at %d in a file of %d", p.Size, at, size)
		}
		stored = append(stored, Stored[T]{About: p.About, Size: p.Size, sum: p.Sum, at: at})
		at += p.Size
	}
	return stored, nil
}

// unpacker holds reusable buffers for decoding a header.
type unpacker struct {
	zip  gzip.Reader
	text bytes.Buffer
}

func decodeHeader[T any](packed []byte, unpackers *sync.Pool) (head header[T], err error) {
	u, ok := unpackers.Get().(*unpacker)
	if !ok {
		u = new(unpacker)
	}
	defer unpackers.Put(u)
	if err := u.zip.Reset(bytes.NewReader(packed)); err != nil {
		return head, err
	}
	u.text.Reset()
	if _, err := u.text.ReadFrom(io.LimitReader(&u.zip, maxText)); err != nil {
		return head, err
	}
	return head, json.Unmarshal(u.text.Bytes(), &head)
}

// Data reads the data of a profile. Its error is ErrGone.
func (s *Stored[T]) Data() ([]byte, error) {
	data, err := s.readProfile()
	if err != nil {
		return nil, s.holder.failed(s.round, err)
	}
	if crc32.Checksum(data, castagnoli) != s.sum {
		return nil, s.holder.failed(s.round, errors.New("it is damaged: a profile's checksum differs"))
	}
	return data, nil
}

func (s *Stored[T]) readProfile() ([]byte, error) {
	s.holder.reading.Lock()
	defer s.holder.reading.Unlock()
	f, err := os.Open(filepath.Join(s.holder.dir, s.round.fileName()))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data := make([]byte, s.Size)
	_, err = f.ReadAt(data, s.at)
	return data, err
}
