package receivehttp

import (
	"testing"

	pushv1 "github.com/grafana/pyroscope/api/gen/proto/go/push/v1"
	typesv1 "github.com/grafana/pyroscope/api/gen/proto/go/types/v1"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// FuzzCodec decodes arbitrary bytes: the result has at most as many messages as the size allows.
func FuzzCodec(f *testing.F) {
	request := &pushv1.PushRequest{Series: []*pushv1.RawProfileSeries{{
		Labels:  []*typesv1.LabelPair{{Name: "a", Value: "b"}, {}},
		Samples: []*pushv1.RawSample{{ID: "i", RawProfile: []byte("p")}, {}},
	}, {}}}
	packed, err := proto.Marshal(request)
	if err != nil {
		f.Fatal(err)
	}
	text, err := protojson.Marshal(request)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(packed, false, uint16(1))
	f.Add(text, true, uint16(1))
	f.Add([]byte{0x0a, 2, 0x12, 0}, false, uint16(3000))
	f.Fuzz(func(t *testing.T, data []byte, json bool, times uint16) {
		if len(data)*int(times) > 1<<16 {
			return
		}
		var all []byte // repeated, series are joined
		for range times {
			all = append(all, data...)
		}
		c := codec{"proto"}
		if json {
			c, all = codec{"json"}, data
		}
		var got pushv1.PushRequest
		if c.Unmarshal(all, &got) != nil {
			return
		}
		count := len(got.Series)
		for _, s := range got.Series {
			count += len(s.Labels) + len(s.Samples) + len(s.Annotations)
		}
		if most := freeMessages + len(all)/bytesPerMessage; count > most {
			t.Errorf("%d messages in %d bytes", count, len(all))
		}
	})
}
