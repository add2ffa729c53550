package spool

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/go-kit/log/level"
	"github.com/prometheus/prometheus/tsdb/wlog"
	"golang.org/x/sys/unix"
)

// recover reads what an earlier process has left: it counts the records that are
// not done with, and cuts each segment behind its last good record.
func (s *Spool) recover() error {
	indexes, err := segmentIndexes(s.dir)
	if err != nil {
		return err
	}
	seen := s.cursor.low
	s.next = s.cursor.highest() + 1
	for _, index := range indexes {
		segment, err := s.scan(index, &seen)
		if err != nil {
			return err
		}
		if segment.records == 0 && len(s.segments) == 0 { // none in the middle: the log wants all its numbers
			if err := os.Remove(wlog.SegmentName(s.dir, index)); err != nil {
				return err
			}
			continue
		}
		s.segments = append(s.segments, segment)
	}
	s.next = max(s.next, seen+1)
	s.handed = s.cursor.low
	return nil
}

// scan counts the records of a segment after the place seen, which it moves on.
func (s *Spool) scan(index int, seen *uint64) (*segment, error) {
	name := wlog.SegmentName(s.dir, index)
	file, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	found := &segment{index: index}
	good := int64(0)
	log := wlog.NewReader(bufio.NewReaderSize(file, pageBytes))
	for log.Next() {
		r, err := decodeHeader(log.Record())
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		good = log.Offset()
		found.last = max(found.last, r.Seq)
		if r.Seq > *seen && !s.cursor.isDone(r.Seq) {
			found.records++
			found.bytes += r.Size
		}
		*seen = max(*seen, r.Seq)
	}
	end, err := file.Seek(0, io.SeekEnd)
	if err != nil {
		return nil, err
	}
	found.size = good
	torn, err := anyByteSet(file, good, end)
	if err != nil || !torn {
		return found, err
	}
	level.Warn(s.opts.Logger).Log("msg", "cut off the end of a file of the queue, which is not a whole record: it was being written when the process ended, or is damaged",
		"file", name, "offset", good, "bytes", end-good, "err", log.Err())
	return found, file.Truncate(good)
}

// anyByteSet tells whether a part of a file is more than zeros, with which the log
// fills up its pages.
func anyByteSet(file *os.File, from, to int64) (bool, error) {
	in := bufio.NewReaderSize(io.NewSectionReader(file, from, to-from), pageBytes)
	for {
		b, err := in.ReadByte()
		switch {
		case errors.Is(err, io.EOF):
			return false, nil
		case err != nil:
			return false, err
		case b != 0:
			return true, nil
		}
	}
}

// segmentIndexes returns the numbers of the segment files in order.
func segmentIndexes(dir string) ([]int, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var indexes []int
	for _, entry := range entries {
		if index, err := strconv.Atoi(entry.Name()); err == nil && index >= 0 && filepath.Base(wlog.SegmentName(dir, index)) == entry.Name() {
			indexes = append(indexes, index)
		}
	}
	slices.Sort(indexes)
	return indexes, nil
}

// lockFile takes a lock that ends with the process.
func lockFile(name string) (*os.File, error) {
	file, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		file.Close()
		return nil, fmt.Errorf("lock %s, which another process or component may hold: %w", name, err)
	}
	return file, nil
}
