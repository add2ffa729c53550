package write

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-kit/log"
	"github.com/go-kit/log/level"

	"github.com/headwater/headwater/component/pyroscope/write/spool"
)

// diskQueue is a queue in a spool on disk. While the spool cannot be written, new profiles wait in memory, after the
// profiles on disk.
type diskQueue struct {
	dir   string
	hooks diskHooks
	token token

	mu       sync.Mutex
	options  QueueOptions
	started  bool
	closed   bool
	spool    *spool.Spool // nil if it is not open yet, or could not be opened
	memory   ring         // items that are not in the spool
	underWay int          // items handed out and not done with
	trouble  error        // error of the last use of the disk
	tryAgain time.Time    // the disk is not used before then
	meter    meter
	owed     []loss // not reported yet

	last atomic.Pointer[usage] // as of the last change
}

// diskHooks are the callbacks of a diskQueue, and its retry interval.
type diskHooks struct {
	logger     log.Logger
	report     func(profiles, bytes int) // changes of the waiting profiles
	failed     func()                    // a use of the disk
	fellBack   func(it *item, err error) // a profile that has to wait in memory
	retryEvery time.Duration             // after a failure
}

func newDiskQueue(dir string, options QueueOptions, maxBytes, maxItems int, hooks diskHooks) *diskQueue {
	q := &diskQueue{
		dir: dir, options: options, hooks: hooks, token: newToken(),
		memory: ring{maxBytes: maxBytes, maxItems: maxItems},
		meter:  meter{report: hooks.report},
	}
	q.last.Store(&usage{})
	return q
}

// configure changes all options except the directory.
func (q *diskQueue) configure(options QueueOptions) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.options = options
	if q.spool != nil {
		o := options.spool(q.hooks.logger)
		q.spool.Configure(o.MaxBytes, o.Sync, o.Interval)
	}
	q.changed()
}

// start opens the spool. Before that, no item is written to disk. start returns at once, but users of the queue block
// until the files are read: an item must not be acknowledged while it is only in memory.
func (q *diskQueue) start(run func(func())) {
	q.mu.Lock()
	run(func() {
		defer q.mu.Unlock()
		q.started = true
		lost, _ := q.useDisk()
		q.owed = append(q.owed, lost...)
		q.changed()
	})
}

// useDisk opens the spool if needed and moves the items that wait in memory to it. It reports whether the spool accepts
// more items. The caller holds q.mu.
func (q *diskQueue) useDisk() (lost []loss, ok bool) {
	if !q.started || time.Now().Before(q.tryAgain) {
		return nil, false
	}
	if q.spool == nil && !q.openSpool() {
		return nil, false
	}
	for it := q.memory.first(); it != nil; it = q.memory.first() {
		gone, err := q.write(it)
		lost = append(lost, gone...)
		if err != nil {
			q.failWith(err)
			return lost, false
		}
		q.memory.pop()
	}
	if q.trouble != nil {
		q.trouble = nil
		level.Info(q.hooks.logger).Log("msg", "the queue on disk works again")
	}
	return lost, true
}

func (q *diskQueue) openSpool() bool {
	opened, err := spool.Open(q.dir, q.options.spool(q.hooks.logger))
	if err != nil {
		q.failWith(fmt.Errorf("open the queue in %s: %w", q.dir, err))
		return false
	}
	q.spool = opened
	if lost := opened.Lost(); lost.Records > 0 {
		q.owed = append(q.owed, loss{why: lostToRead, profiles: lost.Records, bytes: lost.Bytes})
	}
	if records, bytes, _ := opened.Usage(); records > 0 {
		level.Info(q.hooks.logger).Log("msg", "profiles of an earlier run wait in the queue", "profiles", records,
			"bytes", bytes)
	}
	return true
}

func (q *diskQueue) failWith(err error) {
	q.trouble = err
	q.tryAgain = time.Now().Add(q.hooks.retryEvery)
	q.hooks.failed()
}

// write puts an item into the spool. The item keeps its place even if the write fails, since the item may have reached
// the disk anyway.
func (q *diskQueue) write(it *item) ([]loss, error) {
	data, err := encodeItem(it)
	if err != nil {
		return []loss{{why: lostToRead, profiles: 1, bytes: it.size}}, nil
	}
	if it.place == 0 {
		it.place = q.spool.Reserve()
	}
	gone, err := q.spool.Append(spool.Record{Seq: it.place, Taken: it.taken, Size: it.size, Data: data})
	var lost []loss
	if gone.Records > 0 {
		lost = append(lost, loss{why: lostToRoom, profiles: gone.Records, bytes: gone.Bytes})
	}
	if errors.Is(err, spool.ErrTooBig) {
		return append(lost, loss{why: lostToTooBig, profiles: 1, bytes: it.size}), nil
	}
	return lost, err
}

func (q *diskQueue) push(shared *item) (lost []loss, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return nil, false
	}
	it := *shared // each queue assigns its own places
	lost, ok = q.useDisk()
	if ok {
		gone, err := q.write(&it)
		lost = append(lost, gone...)
		if err == nil {
			q.changed()
			return lost, true
		}
		q.failWith(err)
	}
	if q.trouble != nil {
		q.hooks.fellBack(&it, q.trouble)
	}
	lost = append(lost, q.memory.push(&it)...)
	q.changed()
	return lost, true
}

func (q *diskQueue) pop(extra bool) (it *item, lost []loss) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !extra && q.underWay >= q.options.MaxInFlight {
		return nil, nil
	}
	lost, _ = q.useDisk()
	it, gone := q.takeRecord()
	lost = append(append(lost, gone...), q.owed...)
	q.owed = nil
	if it != nil {
		q.underWay++
	}
	q.changed()
	return it, lost
}

// takeRecord removes the oldest item. Items on disk are older than those in memory.
func (q *diskQueue) takeRecord() (it *item, lost []loss) {
	for q.spool != nil {
		record, gone, ok := q.spool.Next()
		if gone.Records > 0 {
			lost = append(lost, loss{why: lostToRead, profiles: gone.Records, bytes: gone.Bytes})
		}
		if !ok {
			break
		}
		it, err := decodeItem(record)
		if err == nil {
			return it, lost
		}
		level.Warn(q.hooks.logger).Log("msg", "a profile in the queue cannot be read", "err", err)
		lost = append(lost, loss{why: lostToRead, profiles: 1, bytes: record.Size})
		q.finish(record.Seq)
	}
	if q.spool != nil {
		if records, _, _ := q.spool.Usage(); records > 0 {
			return nil, lost // MaxInFlight items are under way
		}
	}
	it = q.memory.pop()
	if it != nil && it.place > 0 {
		q.spool.Begin(it.place)
	}
	return it, lost
}

func (q *diskQueue) done(it *item) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.underWay--
	if it.place > 0 && q.spool != nil {
		q.finish(it.place)
	}
	q.changed()
}

func (q *diskQueue) finish(place uint64) {
	if err := q.spool.Done(place); err != nil {
		q.hooks.failed()
		level.Warn(q.hooks.logger).Log(
			"msg", "cannot mark a profile on disk as done: it may be sent again after a restart", "err", err)
	}
}

// giveBack keeps an item from pop for the next start of the program. It returns false if that is not possible.
func (q *diskQueue) giveBack(it *item) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if it.stored {
		return true
	}
	if q.spool == nil {
		return false
	}
	lost, err := q.write(it)
	q.owed = append(q.owed, lost...)
	return err == nil
}

// changed updates the usage after a change. The caller holds q.mu.
func (q *diskQueue) changed() {
	u := q.heldUsage()
	q.last.Store(&u)
	q.meter.setWaiting(u.profiles, u.bytes)
	if u.profiles > 0 && q.underWay < q.options.MaxInFlight {
		q.token.putBack()
	}
}

func (q *diskQueue) heldUsage() usage {
	u := usage{profiles: q.memory.len(), bytes: q.memory.bytes, inMemory: q.memory.len()}
	if q.spool != nil {
		records, bytes, disk := q.spool.Usage()
		u.profiles, u.bytes, u.diskBytes = u.profiles+records, u.bytes+bytes, disk
	}
	if q.trouble != nil {
		u.trouble = q.trouble.Error()
	}
	return u
}

func (q *diskQueue) usage() usage { return *q.last.Load() }

func (q *diskQueue) ready() <-chan struct{} { return q.token }

func (q *diskQueue) keeps() bool { return true }

func (q *diskQueue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
}

func (q *diskQueue) release() (lost []loss, kept int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.tryAgain = time.Time{}
	if q.memory.len() > 0 {
		lost, _ = q.useDisk()
	}
	for it := q.memory.pop(); it != nil; it = q.memory.pop() {
		lost = append(lost, loss{why: lostToStop, profiles: 1, bytes: it.size})
	}
	lost, q.owed = append(lost, q.owed...), nil
	if q.spool != nil {
		kept, _, _ = q.spool.Usage()
		if err := q.spool.Close(); err != nil {
			level.Warn(q.hooks.logger).Log("msg", "cannot close the queue on disk", "err", err)
		}
		q.spool = nil
	}
	q.started = false
	q.last.Store(&usage{})
	q.meter.setWaiting(0, 0)
	return lost, kept
}
