package write

import (
	"encoding/binary"
	"errors"
	"fmt"

	pushv1 "github.com/grafana/pyroscope/api/gen/proto/go/push/v1"
	"google.golang.org/protobuf/proto"

	"github.com/headwater/headwater/component/pyroscope/write/spool"
)

// An item on disk starts with its kind. A push is followed by the protobuf of its request. A request of the older API
// is followed by texts, each preceded by its length as a uvarint: path, query, the number of content types, the content
// types, and the body.
const (
	kindPush   = 'P'
	kindIngest = 'I'
)

func encodeItem(it *item) ([]byte, error) {
	if it.push != nil {
		out, err := proto.MarshalOptions{}.MarshalAppend([]byte{kindPush}, it.push)
		if err != nil {
			return nil, fmt.Errorf("encode profile: %w", err)
		}
		return out, nil
	}
	out := []byte{kindIngest}
	text := func(s string) { out = append(binary.AppendUvarint(out, uint64(len(s))), s...) }
	text(it.ingest.path)
	text(it.ingest.query)
	out = binary.AppendUvarint(out, uint64(len(it.ingest.contentType)))
	for _, value := range it.ingest.contentType {
		text(value)
	}
	return append(out, it.ingest.body...), nil
}

// decodeItem reads an item. It keeps parts of r.Data.
func decodeItem(r spool.Record) (*item, error) {
	it := &item{size: r.Size, taken: r.Taken, place: r.Seq, stored: true}
	if len(r.Data) == 0 {
		return nil, errors.New("decode profile: empty")
	}
	kind, data := r.Data[0], r.Data[1:]
	switch kind {
	case kindPush:
		it.push = &pushv1.PushRequest{}
		if err := proto.Unmarshal(data, it.push); err != nil {
			return nil, fmt.Errorf("decode profile: %w", err)
		}
		return it, nil
	case kindIngest:
		var err error
		it.ingest, err = decodeIngest(data)
		return it, err
	}
	return nil, fmt.Errorf("decode profile: unknown kind %q", kind)
}

func decodeIngest(data []byte) (*ingestRequest, error) {
	short := errors.New("decode profile: it ends early")
	number := func() (uint64, bool) {
		n, width := binary.Uvarint(data)
		if width <= 0 {
			return 0, false
		}
		data = data[width:]
		return n, true
	}
	text := func() (string, bool) {
		n, ok := number()
		if !ok || n > uint64(len(data)) {
			return "", false
		}
		s := string(data[:n])
		data = data[n:]
		return s, true
	}
	r := &ingestRequest{}
	var ok bool
	if r.path, ok = text(); !ok {
		return nil, short
	}
	if r.query, ok = text(); !ok {
		return nil, short
	}
	count, ok := number()
	if !ok || count > uint64(len(data)) {
		return nil, short
	}
	for range count {
		value, ok := text()
		if !ok {
			return nil, short
		}
		r.contentType = append(r.contentType, value)
	}
	r.body = data
	return r, nil
}
