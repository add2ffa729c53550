package process

import (
	"sync"
	"time"

	"github.com/headwater/headwater/ebpf/unwind"
)

// filler builds pages of rows off the sample path, one goroutine for all.
type filler struct {
	store  Store
	failed func(error)
	mapped func(*Executable) bool // by some process

	mu    sync.Mutex
	ready *sync.Cond // work has come, or has been done
	queue []request
	idle  []request // pages to build when nothing else is to do
	busy  bool
	ended bool
	done  chan struct{}
}

// idlePause is between two pages that nobody has asked for: the filler then takes a
// fifth of a CPU at most.
const idlePause = 500 * time.Microsecond

// request is for one page, or for all pages of an executable. An idle one is for a
// page and all behind it.
type request struct {
	exe  *Executable
	page uint64
	all  bool
	idle bool
}

// maxRequests bounds the queue. A page that finds it full is asked for again by
// the next walk that misses it.
const maxRequests = 4096

func newFiller(store Store, failed func(error), mapped func(*Executable) bool) *filler {
	f := &filler{store: store, failed: failed, mapped: mapped, done: make(chan struct{})}
	f.ready = sync.NewCond(&f.mu)
	go f.run()
	return f
}

// whole asks for all pages of a small executable, and for those of one of middle
// size when there is nothing else to do. Those of a large one are built when they
// are missed.
func (f *filler) whole(e *Executable) {
	switch {
	case e.elf == nil || e.directory.Pages == 0:
	case e.directory.Pages <= smallPages:
		f.push(request{exe: e, all: true})
	case e.directory.Pages <= middlePages:
		f.mu.Lock()
		defer f.mu.Unlock()
		if len(f.idle) < maxRequests {
			f.idle = append(f.idle, request{exe: e, page: uint64(e.directory.First), idle: true})
			f.ready.Broadcast()
		}
	}
}

func (f *filler) page(e *Executable, n uint64) { f.push(request{exe: e, page: n}) }

func (f *filler) push(r request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.queue) < maxRequests {
		f.queue = append(f.queue, r)
		f.ready.Broadcast()
	}
}

// wait returns when nothing is left to do, or after a while.
func (f *filler) wait(patience time.Duration) {
	timer := time.AfterFunc(patience, func() {
		f.mu.Lock()
		patience = 0
		f.ready.Broadcast()
		f.mu.Unlock()
	})
	defer timer.Stop()
	f.mu.Lock()
	defer f.mu.Unlock()
	for (f.busy || len(f.queue) > 0) && patience > 0 && !f.ended {
		f.ready.Wait()
	}
}

func (f *filler) run() {
	defer close(f.done)
	for {
		r, ok := f.next()
		if !ok {
			return
		}
		if r.idle {
			f.prefetch(r)
			continue
		}
		if !r.all {
			f.failed(r.exe.fill(f.store, r.page))
			continue
		}
		for _, n := range pagesOf(r.exe.directory) {
			if err := r.exe.fill(f.store, n); err != nil {
				f.failed(err)
				break
			}
		}
	}
}

// prefetch builds one page, while little of the store's memory is in use,
// and asks for the next.
func (f *filler) prefetch(r request) {
	if !f.store.HasRoom() || !f.mapped(r.exe) {
		return
	}
	if err := r.exe.fill(f.store, r.page); err != nil {
		f.failed(err)
		return
	}
	time.Sleep(idlePause)
	if r.page++; r.exe.directory.Holds(r.page) {
		f.mu.Lock()
		f.idle = append(f.idle, r)
		f.mu.Unlock()
	}
}

func pagesOf(d unwind.Directory) []uint64 {
	pages := make([]uint64, d.Pages)
	for i := range pages {
		pages[i] = uint64(d.First) + uint64(i)
	}
	return pages
}

func (f *filler) next() (request, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.busy = false
	f.ready.Broadcast()
	for len(f.queue) == 0 && len(f.idle) == 0 && !f.ended {
		f.ready.Wait()
	}
	if f.ended {
		return request{}, false
	}
	from := &f.queue
	if f.busy = len(f.queue) > 0; !f.busy {
		from = &f.idle
	}
	r := (*from)[0]
	*from = (*from)[1:]
	return r, true
}

func (f *filler) close() {
	f.mu.Lock()
	f.ended = true
	f.ready.Broadcast()
	f.mu.Unlock()
	<-f.done
}
