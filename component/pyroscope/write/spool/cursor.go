package spool

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"os"
	"slices"
)

// cursor records the records that are done with: all records up to low, and the records in above. Its file holds two
// copies that are written in turn, so that one is always complete. A copy consists of a generation, low, the number of
// places in above, these places, appended, counted, zero (a flag in earlier versions), and a CRC-32C, each a 64-bit
// number. A copy never crosses a page, so that a process that is killed writes either the whole copy or none of it.
// Files of the earliest versions end after above.
type cursor struct {
	file *os.File
	lost bool // neither copy in the file was complete

	generation uint64
	low        uint64
	above      []uint64 // sorted, at most Window
	begun      []uint64 // handed out and not done with
	appended   uint64   // the highest place written to the log
	counted    uint64   // losses up to this place are counted
}

const (
	slotBytes  = 512
	slotHeader = 3 * 8
	slotMore   = 3 * 8
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func openCursor(name string) (*cursor, error) {
	file, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	c := &cursor{file: file}
	var slots [2 * slotBytes]byte
	n, err := file.ReadAt(slots[:], 0)
	if err != nil && !errors.Is(err, io.EOF) {
		file.Close()
		return nil, err
	}
	if n == 0 { // allocate the disk space now: the disk may be full later
		if _, err := file.WriteAt(slots[:], 0); err != nil {
			file.Close()
			return nil, err
		}
		return c, nil
	}
	found := false
	for _, slot := range [][]byte{slots[:slotBytes], slots[slotBytes:]} {
		found = c.loadSlot(slot) || found
	}
	c.lost = !found && slices.ContainsFunc(slots[:], func(b byte) bool { return b != 0 })
	return c, nil
}

// loadSlot adopts a copy if it is complete and newer.
func (c *cursor) loadSlot(slot []byte) bool {
	count := binary.BigEndian.Uint64(slot[16:])
	if count > Window {
		return false
	}
	end := slotHeader + 8*int(count)
	generation := binary.BigEndian.Uint64(slot)
	whole := func(end int) bool {
		return crc32.Checksum(slot[:end], castagnoli) == binary.BigEndian.Uint32(slot[end:])
	}
	more := whole(end + slotMore)
	if generation == 0 || !more && !whole(end) {
		return false
	}
	if generation <= c.generation {
		return true
	}
	c.generation, c.low, c.above = generation, binary.BigEndian.Uint64(slot[8:]), nil
	for i := range int(count) {
		c.above = append(c.above, binary.BigEndian.Uint64(slot[slotHeader+8*i:]))
	}
	c.appended, c.counted = 0, 0
	if more {
		c.appended, c.counted = binary.BigEndian.Uint64(slot[end:]), binary.BigEndian.Uint64(slot[end+8:])
	}
	return true
}

func (c *cursor) store() error {
	var slot [slotBytes]byte
	c.generation++
	binary.BigEndian.PutUint64(slot[0:], c.generation)
	binary.BigEndian.PutUint64(slot[8:], c.low)
	binary.BigEndian.PutUint64(slot[16:], uint64(len(c.above)))
	end := slotHeader
	for _, seq := range c.above {
		binary.BigEndian.PutUint64(slot[end:], seq)
		end += 8
	}
	binary.BigEndian.PutUint64(slot[end:], c.appended)
	binary.BigEndian.PutUint64(slot[end+8:], c.counted)
	end += slotMore
	binary.BigEndian.PutUint32(slot[end:], crc32.Checksum(slot[:end], castagnoli))
	_, err := c.file.WriteAt(slot[:], int64(c.generation%2)*slotBytes)
	return err
}

// waiting returns the number of used places of the window.
func (c *cursor) waiting() int { return len(c.begun) + len(c.above) }

func (c *cursor) isDone(seq uint64) bool {
	if seq <= c.low {
		return true
	}
	_, found := slices.BinarySearch(c.above, seq)
	return found
}

// highest returns the highest place that the cursor knows.
func (c *cursor) highest() uint64 {
	if len(c.above) > 0 {
		return c.above[len(c.above)-1]
	}
	return c.low
}

func (c *cursor) begin(seq uint64) { c.begun = append(c.begun, seq) }

// markDone notes that a record was delivered or dropped. Of the places up to handed, only the places in begun may be
// handed out again.
func (c *cursor) markDone(seq, handed uint64) error {
	c.begun = slices.DeleteFunc(c.begun, func(s uint64) bool { return s == seq })
	if i, found := slices.BinarySearch(c.above, seq); !found {
		c.above = slices.Insert(c.above, i, seq)
	}
	c.low = max(c.low, handed)
	if len(c.begun) > 0 {
		c.low = slices.Min(c.begun) - 1
	}
	c.above = slices.DeleteFunc(c.above, func(s uint64) bool { return s <= c.low })
	return c.store()
}
