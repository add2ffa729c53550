package jfr

import (
	"encoding/binary"

	"github.com/grafana/jfr-parser/parser/types"
	"github.com/grafana/jfr-parser/parser/types/def"
)

// counts are the bytes that threads have allocated since they started, when the VM last counted them.
type counts map[types.ThreadRef]uint64

// allocated returns the bytes that threads have allocated in a chunk, and their counts at its end, by its events
// jdk.ThreadAllocationStatistics, which the parser of recordings does not know. before are the counts at the end of
// the previous chunk, nil if they are unknown: then the first of a thread's events in the chunk stands for them, and
// a thread with one event is left out.
func allocated(chunk []byte, known *def.TypeMap, before counts) (bytes, now counts) {
	event := known.NameMap["jdk.ThreadAllocationStatistics"]
	if event == nil {
		return nil, nil
	}
	first, after := counts{}, counts{}
	events := map[types.ThreadRef]int{}
	eachEvent(chunk, func(kind uint64, fields []byte) {
		if kind != uint64(event.ID) {
			return
		}
		values := map[string]uint64{}
		for _, f := range event.Fields {
			v, n := binary.Uvarint(fields)
			if n <= 0 {
				return
			}
			values[f.Name], fields = v, fields[n:]
		}
		thread := types.ThreadRef(values["thread"])
		if events[thread]++; events[thread] == 1 {
			first[thread] = values["allocated"]
		}
		after[thread] = values["allocated"]
	})
	bytes = counts{}
	for thread, n := range after {
		switch was := before[thread]; {
		case before != nil:
			bytes[thread] = n - min(was, n) // from 0 on for a thread that has started since
		case events[thread] > 1:
			bytes[thread] = n - min(first[thread], n)
		}
	}
	return bytes, after
}

// eachEvent yields the kind of each event of a chunk and its fields.
func eachEvent(chunk []byte, yield func(kind uint64, fields []byte)) {
	for at := uint64(headerSize); at < uint64(len(chunk)); {
		size, n := binary.Uvarint(chunk[at:])
		if n <= 0 || size < uint64(n) || size > uint64(len(chunk))-at {
			return
		}
		event := chunk[at+uint64(n) : at+size]
		if kind, n := binary.Uvarint(event); n > 0 {
			yield(kind, event[n:])
		}
		at += size
	}
}
