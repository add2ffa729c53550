// Package spool keeps records on disk, first in, first out, until they are done with. A record that Append has taken
// survives the end of the process at any moment, and a record that is done with does not return.
//
// A spool is a directory: log/ holds segment files in the format of Prometheus' write-ahead log, cursor records which
// records are done with, and lock excludes other processes.
package spool

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/go-kit/log"
	"github.com/go-kit/log/level"
)

// Limits of a segment file in bytes. A full spool drops its oldest segment, so a spool has several.
const (
	segmentShare = 16 // of the whole spool
	minSegment   = 64 << 10
	maxSegment   = 16 << 20
)

// Window is the maximum number of records that are handed out and not done with, or done with before an older record.
const Window = 48

// Options configure a spool.
type Options struct {
	MaxBytes int64         // on disk; beyond that, the oldest records are dropped
	Sync     SyncPolicy    // when written records are made to survive a power failure
	Interval time.Duration // between two syncs, for SyncInterval
	Logger   log.Logger    // reports damage that Open finds
}

// SyncPolicy says when written records are synced, so that they survive a power failure or a crash of the kernel. The
// end of the process never loses records, under any policy.
type SyncPolicy int

// The policies.
const (
	SyncInterval SyncPolicy = iota // soon, in the background
	SyncAlways                     // before Append returns
	SyncNever                      // when the kernel decides
)

// Record is a record of a spool.
type Record struct {
	Seq   uint64    // its place in the order, from Reserve
	Taken time.Time // start of its wait, in whole nanoseconds
	Size  int       // in bytes, as the user counts them
	Data  []byte
}

// Lost counts the records that a spool has given up.
type Lost struct{ Records, Bytes int }

// ErrTooBig says that a record is bigger than the limit of the whole spool.
var ErrTooBig = errors.New("bigger than the whole queue")

// Spool is an open spool. It is safe for concurrent use.
type Spool struct {
	dir  string
	lock *os.File

	mu       sync.Mutex
	opts     Options
	writer   *writer
	closing  sync.WaitGroup // of segments that writer wrote earlier
	segments []*segment     // oldest first; writer writes the last one
	broken   bool           // a write failed: the last segment may end with half a record
	reader   *reader        // of the first segment with records to hand out; may be nil
	cursor   *cursor
	next     uint64 // the next free place
	handed   uint64 // places up to this one will not be handed out again
	dirty    *time.Timer
	unsynced bool // the last sync failed
	lost     Lost // records that Open found lost
	closed   bool
}

// segment is one file of the log.
type segment struct {
	index   int
	last    uint64 // place of its last record
	records int    // not yet handed out
	bytes   int    // of the records not yet handed out, as the user counts
	size    int64  // of the file
}

// Open opens the spool in dir, and creates dir if needed. If a killed process has left a half-written record, Open
// removes it and logs that. The spool's Lost counts damaged records and the records of missing files.
func Open(dir string, opts Options) (*Spool, error) {
	logDir := filepath.Join(dir, "log")
	if err := os.MkdirAll(logDir, 0o700); err != nil {
		return nil, err
	}
	lock, err := lockFile(filepath.Join(dir, "lock"))
	if err != nil {
		return nil, err
	}
	s := &Spool{dir: logDir, lock: lock, opts: opts}
	if err := s.openFolder(dir); err != nil {
		s.release()
		return nil, err
	}
	return s, nil
}

func (s *Spool) openFolder(dir string) error {
	var err error
	if s.cursor, err = openCursor(filepath.Join(dir, "cursor")); err != nil {
		return err
	}
	if s.cursor.lost {
		level.Warn(s.opts.Logger).Log(
			"msg", "the queue's file cursor cannot be read: profiles that were sent before may be sent again", "file",
			s.cursor.file.Name())
	}
	if err := s.recover(); err != nil {
		return err
	}
	first := 0
	if len(s.segments) > 0 {
		first = s.current().index + 1
	}
	s.segments = append(s.segments, &segment{index: first})
	s.writer, err = createSegment(s.dir, first)
	return err
}

// Lost returns the records that Open found damaged or missing.
func (s *Spool) Lost() Lost {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lost
}

// Reserve returns a place for the record that is passed to Append next.
func (s *Spool) Reserve() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.next++
	return s.next - 1
}

// Append writes a record. The caller appends records in the order of their places. Append may drop the oldest records
// to make room. After an error, the caller may retry the record before it appends a later one: the record is handed out
// only once, even if the first attempt has reached the disk.
func (s *Spool) Append(r Record) (Lost, error) {
	data := encode(r)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return Lost{}, os.ErrClosed
	}
	size := sizeInLog(len(data))
	if size > s.opts.MaxBytes {
		if s.next == r.Seq+1 {
			s.next-- // reuse its place: a gap between places would mean a loss
		}
		return Lost{}, ErrTooBig
	}
	if current := s.current(); s.broken || current.size > 0 && current.size+size > s.segmentSize() {
		if err := s.cutSegment(); err != nil {
			return Lost{}, err
		}
	}
	lost := s.makeRoom(size)
	if err := s.writer.append(data); err != nil {
		s.broken = true
		return lost, err
	}
	current := s.current()
	current.size = s.writer.size
	current.last = r.Seq
	current.records++
	current.bytes += r.Size
	s.cursor.appended = max(s.cursor.appended, r.Seq)
	if err := s.cursor.store(); err != nil { // Open counts the damaged records by their places
		return lost, err
	}
	s.written()
	return lost, nil
}

func (s *Spool) current() *segment { return s.segments[len(s.segments)-1] }

func (s *Spool) segmentSize() int64 {
	return min(max(s.opts.MaxBytes/segmentShare, minSegment), maxSegment)
}

// cutSegment starts a new segment.
func (s *Spool) cutSegment() error {
	if err := s.writer.fillPage(); err != nil {
		return err
	}
	s.current().size = s.writer.size
	index := s.current().index + 1
	next, err := createSegment(s.dir, index)
	if err != nil {
		return err
	}
	before, logger := s.writer, s.opts.Logger
	s.closing.Go(func() { // this takes long on a slow disk
		if err := before.close(); err != nil {
			level.Warn(logger).Log("msg", "cannot sync a file of the queue to disk", "file", before.file.Name(), "err", err)
		}
	})
	s.broken, s.writer = false, next
	s.segments = append(s.segments, &segment{index: index, last: s.current().last})
	s.removeDone()
	return nil
}

// removeFiles removes the segment files with a lower index than before.
func (s *Spool) removeFiles(before int) {
	indexes, err := segmentIndexes(s.dir)
	for _, index := range indexes {
		if index < before && err == nil {
			err = os.Remove(segmentName(s.dir, index))
		}
	}
	if err != nil {
		level.Warn(s.opts.Logger).Log("msg", "cannot remove a file of the queue", "err", err)
	}
}

// makeRoom drops the oldest segments until size more bytes fit.
func (s *Spool) makeRoom(size int64) Lost {
	var lost Lost
	for s.diskBytes()+size > s.opts.MaxBytes && len(s.segments) > 1 {
		oldest := s.segments[0]
		lost.Records += oldest.records
		lost.Bytes += oldest.bytes
		s.giveUp(oldest)
		s.removeFiles(s.segments[1].index)
		s.segments = s.segments[1:]
	}
	return lost
}

// giveUp drops the records of a segment that are not handed out yet. The caller counts them, so Open must not count
// them again.
func (s *Spool) giveUp(segment *segment) {
	segment.records, segment.bytes = 0, 0
	s.handed = max(s.handed, segment.last)
	s.cursor.counted = max(s.cursor.counted, segment.last)
	s.closeReader(segment)
}

func (s *Spool) diskBytes() int64 {
	var sum int64
	for _, segment := range s.segments {
		sum += segment.size
	}
	return sum
}

// Next hands out the oldest record that has not been handed out yet. It returns false if there is no such record or
// Window is exhausted. It returns unreadable records as lost.
func (s *Spool) Next() (Record, Lost, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var lost Lost
	for !s.closed && s.cursor.waiting() < Window {
		i := slices.IndexFunc(s.segments, func(segment *segment) bool { return segment.records > 0 })
		if i < 0 {
			break
		}
		r, err := s.readFrom(s.segments[i])
		if err != nil {
			level.Warn(s.opts.Logger).Log("msg", "a file of the queue cannot be read any further",
				"file", segmentName(s.dir, s.segments[i].index), "err", err)
			lost.Records += s.segments[i].records
			lost.Bytes += s.segments[i].bytes
			s.giveUp(s.segments[i])
			if err := s.cursor.store(); err != nil {
				level.Warn(s.opts.Logger).Log("msg", "cannot write the queue's file cursor", "err", err)
			}
			continue
		}
		s.handed = r.Seq
		s.cursor.begin(r.Seq)
		return r, lost, true
	}
	return Record{}, lost, false
}

// readFrom returns the next record of a segment that must be handed out.
func (s *Spool) readFrom(from *segment) (Record, error) {
	if s.reader == nil || s.reader.segment != from {
		s.closeReader(nil)
		var err error
		if s.reader, err = newReader(s.dir, from); err != nil {
			return Record{}, err
		}
	}
	for {
		r, err := s.reader.readRecord()
		if err != nil {
			return Record{}, err
		}
		if r.Seq <= s.handed || s.cursor.isDone(r.Seq) {
			continue // done with before a restart, or written twice
		}
		from.records--
		from.bytes -= r.Size
		return r, nil
	}
}

// closeReader closes the reader of a segment. If the segment is nil, it closes any reader.
func (s *Spool) closeReader(of *segment) {
	if s.reader != nil && (of == nil || s.reader.segment == of) {
		s.reader.file.Close()
		s.reader = nil
	}
}

// Begin says that a record is being sent although Append failed.
func (s *Spool) Begin(seq uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.handed = max(s.handed, seq)
	s.cursor.begin(seq)
}

// Done says that a handed-out record is done with. It will not be handed out again, not even after a restart.
func (s *Spool) Done(seq uint64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return os.ErrClosed
	}
	if err := s.cursor.markDone(seq, s.handed); err != nil {
		return err
	}
	s.removeDone()
	s.written()
	return nil
}

// removeDone removes the segments that are no longer needed.
func (s *Spool) removeDone() {
	keep := 0
	for keep < len(s.segments)-1 && s.segments[keep].records == 0 && s.segments[keep].last <= s.cursor.low {
		s.closeReader(s.segments[keep])
		keep++
	}
	if keep == 0 {
		return
	}
	s.removeFiles(s.segments[keep].index)
	s.segments = s.segments[keep:]
}

// Configure changes the limits.
func (s *Spool) Configure(maxBytes int64, policy SyncPolicy, interval time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.opts.MaxBytes, s.opts.Sync, s.opts.Interval = maxBytes, policy, interval
}

// Usage returns the number of records that wait to be handed out, their bytes as the user counts them, and the bytes of
// all files.
func (s *Spool) Usage() (records, bytes int, disk int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, segment := range s.segments {
		records += segment.records
		bytes += segment.bytes
	}
	return records, bytes, s.diskBytes()
}

// written syncs the log according to the policy. A failed sync does not undo the write.
func (s *Spool) written() {
	switch {
	case s.opts.Sync == SyncAlways:
		s.synced(s.syncSegment(s.current().index))
	case s.opts.Sync == SyncInterval && s.dirty == nil:
		s.dirty = time.AfterFunc(s.opts.Interval, s.syncLater)
	}
}

func (s *Spool) syncLater() {
	s.mu.Lock()
	index, closed := s.current().index, s.closed
	s.dirty = nil
	s.mu.Unlock()
	if closed {
		return
	}
	err := s.syncSegment(index) // without the lock, since it may take long
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.synced(err)
	}
}

// synced logs the first of several failures in a row.
func (s *Spool) synced(err error) {
	if err != nil && !s.unsynced {
		level.Warn(s.opts.Logger).Log("msg", "cannot sync the queue to disk: a power failure may lose profiles", "err", err)
	}
	s.unsynced = err != nil
}

// syncSegment makes the segment with that index, and the cursor, survive a power failure. Earlier segments are synced
// when they are closed.
func (s *Spool) syncSegment(index int) error {
	for _, name := range []string{segmentName(s.dir, index), s.dir} {
		file, err := os.Open(name)
		if errors.Is(err, os.ErrNotExist) {
			continue // done with and removed in the meantime
		}
		if err != nil {
			return err
		}
		err = file.Sync()
		file.Close()
		if err != nil {
			return err
		}
	}
	return s.cursor.file.Sync()
}

// Close closes the spool. Records that are not done with stay for the next Open.
func (s *Spool) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	if s.dirty != nil {
		s.dirty.Stop()
	}
	s.closeReader(nil)
	err := errors.Join(s.writer.fillPage(), s.writer.close())
	s.closing.Wait()
	err = errors.Join(err, s.cursor.store())
	return errors.Join(err, s.release())
}

func (s *Spool) release() error {
	var errs []error
	if s.cursor != nil {
		errs = append(errs, s.cursor.file.Sync(), s.cursor.file.Close())
	}
	return errors.Join(append(errs, s.lock.Close())...) // closing it also releases the lock
}
