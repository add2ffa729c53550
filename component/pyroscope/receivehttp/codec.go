package receivehttp

import (
	"bytes"
	"fmt"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// A decoded message takes about a hundred bytes of memory even if it is empty. A request may therefore hold at most
// freeMessages messages (series, labels, samples), plus one for each bytesPerMessage of its size.
const (
	freeMessages    = 1024
	bytesPerMessage = 64
)

// codec decodes requests, and refuses requests that consist of very many empty messages.
type codec struct{ name string }

// codecs replaces the codecs that connect has by default.
func codecs() connect.Option {
	return connect.WithOptions(connect.WithCodec(codec{"proto"}), connect.WithCodec(codec{"json"}),
		connect.WithCodec(codec{"json; charset=utf-8"}))
}

// Name implements connect.Codec.
func (c codec) Name() string { return c.name }

// Marshal implements connect.Codec.
func (c codec) Marshal(message any) ([]byte, error) {
	m, ok := message.(proto.Message)
	switch {
	case !ok:
		return nil, fmt.Errorf("encoding a %T, which is no protobuf message", message)
	case c.name == "proto":
		return proto.Marshal(m)
	}
	return protojson.Marshal(m)
}

// Unmarshal implements connect.Codec.
func (c codec) Unmarshal(data []byte, message any) error {
	m, ok := message.(proto.Message)
	if !ok {
		return fmt.Errorf("decoding a %T, which is no protobuf message", message)
	}
	count := bytes.Count(data, []byte("{"))
	if c.name == "proto" {
		count = messages(data, 2)
	}
	if most := freeMessages + len(data)/bytesPerMessage; count > most {
		return fmt.Errorf("%d series, labels and samples in %d bytes, more than %d", count, len(data), most)
	}
	if c.name == "proto" {
		return proto.Unmarshal(data, m)
	}
	return protojson.UnmarshalOptions{DiscardUnknown: true}.Unmarshal(data, m)
}

// messages counts the fields of a message that may be messages, and recursively the fields of those messages, down to
// a number of levels.
func messages(data []byte, levels int) int {
	count := 0
	for levels > 0 && len(data) > 0 {
		number, kind, n := protowire.ConsumeTag(data)
		if n < 0 {
			return count // Unmarshal reports the error
		}
		size := protowire.ConsumeFieldValue(number, kind, data[n:])
		if size < 0 {
			return count
		}
		if kind == protowire.BytesType {
			value, _ := protowire.ConsumeBytes(data[n:])
			count += 1 + messages(value, levels-1)
		}
		data = data[n+size:]
	}
	return count
}
