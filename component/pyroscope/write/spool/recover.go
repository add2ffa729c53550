package spool

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/go-kit/log/level"
	"golang.org/x/sys/unix"
)

// recover reads the files of an earlier process: it counts the records that are not done with, and the lost records.
func (s *Spool) recover() error {
	indexes, err := segmentIndexes(s.dir)
	if err != nil {
		return err
	}
	found := survey{seen: s.cursor.low}
	s.next = s.cursor.highest() + 1
	for i, index := range indexes {
		if i > 0 {
			if err := s.fillGap(indexes[i-1], index, &found); err != nil {
				return err
			}
		}
		segment, err := s.scanSegment(index, &found)
		if err != nil {
			return err
		}
		if segment.records == 0 && len(s.segments) == 0 { // keep later empty ones: the log needs all numbers
			if err := os.Remove(segmentName(s.dir, index)); err != nil {
				return err
			}
			continue
		}
		s.segments = append(s.segments, segment)
	}
	end := max(s.cursor.appended, found.seen)
	if found.damaged && s.cursor.appended == 0 {
		end++ // without a cursor the number of lost records is unknown: at least one
	}
	s.count(&found, end+1)
	if s.lost.Records > 0 {
		s.lost.Bytes = int(found.skipped)
		level.Warn(s.opts.Logger).Log("msg", "profiles in the queue are lost to damaged or missing files",
			"profiles", s.lost.Records, "bytes", found.skipped)
	}
	s.next = max(s.next, end+1)
	s.handed = s.cursor.low
	s.cursor.appended, s.cursor.counted = s.next-1, s.next-1
	return s.cursor.store()
}

// survey is the progress of recover.
type survey struct {
	seen    uint64 // place of the last record
	any     bool   // there was a record
	damaged bool   // bytes were skipped since the last record
	skipped int64  // bytes
}

// count counts the places between the last record and the next one as lost, except places that are done with or were
// counted before. Without a cursor it is unknown which places before the first record were done with.
func (s *Spool) count(found *survey, next uint64) {
	if s.cursor.appended == 0 && !found.any && !found.damaged {
		return
	}
	from := max(found.seen, s.cursor.low, s.cursor.counted) + 1
	if next <= from {
		return
	}
	lost := next - from
	for _, done := range s.cursor.above {
		if from <= done && done < next {
			lost--
		}
	}
	s.lost.Records += int(lost)
}

// fillGap creates empty segments for the missing numbers between two segments: the log needs all numbers.
func (s *Spool) fillGap(before, after int, found *survey) error {
	for index := before + 1; index < after; index++ {
		found.damaged = true
		if len(s.segments) == 0 {
			continue // the segments before it have all been removed
		}
		name := segmentName(s.dir, index)
		level.Warn(s.opts.Logger).Log("msg", "a file of the queue is gone", "file", name)
		if err := os.WriteFile(name, nil, 0o600); err != nil {
			return err
		}
		s.segments = append(s.segments, &segment{index: index, last: found.seen})
	}
	return nil
}

// scanSegment counts the records of a segment that are not done with. It cuts off an incomplete last record.
func (s *Spool) scanSegment(index int, found *survey) (*segment, error) {
	of := &segment{index: index}
	r, err := newReader(s.dir, of)
	if err != nil {
		return nil, err
	}
	defer r.file.Close()
	for {
		data, err := r.nextRecord()
		found.damaged = found.damaged || r.damaged
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", r.file.Name(), err)
		}
		record, err := decodeHeader(data)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", r.file.Name(), err)
		}
		s.count(found, record.Seq)
		found.any, found.damaged = true, false
		of.last = max(of.last, record.Seq)
		if record.Seq > found.seen && !s.cursor.isDone(record.Seq) {
			of.records++
			of.bytes += record.Size
		}
		found.seen = max(found.seen, record.Seq)
	}
	found.skipped += r.skipped
	if r.skipped > 0 {
		level.Warn(s.opts.Logger).Log("msg", "a file of the queue is damaged: profiles after the damage are used",
			"file", r.file.Name(), "bytes", r.skipped)
	}
	info, err := r.file.Stat()
	if err != nil {
		return nil, err
	}
	of.size = info.Size()
	if !r.torn {
		return of, nil
	}
	level.Warn(s.opts.Logger).Log("msg",
		"cut off the end of a file of the queue, a record that was being written when the process ended",
		"file", r.file.Name(), "offset", r.good, "bytes", of.size-r.good)
	of.size = r.good
	return of, os.Truncate(r.file.Name(), r.good)
}

// segmentIndexes returns the numbers of the segment files in order.
func segmentIndexes(dir string) ([]int, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var indexes []int
	for _, entry := range entries {
		if index, err := strconv.Atoi(entry.Name()); err == nil && index >= 0 &&
			filepath.Base(segmentName(dir, index)) == entry.Name() {
			indexes = append(indexes, index)
		}
	}
	slices.Sort(indexes)
	return indexes, nil
}

// lockFile takes a lock, which the kernel releases when the process ends.
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
