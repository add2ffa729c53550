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

	mu    sync.Mutex
	ready *sync.Cond // work has come, or has been done
	queue []request
	busy  bool
	ended bool
	done  chan struct{}
}

// request is for one page, or for all pages of an executable.
type request struct {
	exe  *Executable
	page uint64
	all  bool
}

// maxRequests bounds the queue. A page that finds it full is asked for again by
// the next walk that misses it.
const maxRequests = 4096

func newFiller(store Store, failed func(error)) *filler {
	f := &filler{store: store, failed: failed, done: make(chan struct{})}
	f.ready = sync.NewCond(&f.mu)
	go f.run()
	return f
}

// whole asks for all pages of a small executable. Those of a large one are
// built when they are missed.
func (f *filler) whole(e *Executable) {
	if e.elf != nil && e.directory.Pages > 0 && e.directory.Pages <= smallPages {
		f.push(request{exe: e, all: true})
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
	for len(f.queue) == 0 && !f.ended {
		f.ready.Wait()
	}
	if f.ended {
		return request{}, false
	}
	f.busy = true
	r := f.queue[0]
	f.queue = f.queue[1:]
	return r, true
}

func (f *filler) close() {
	f.mu.Lock()
	f.ended = true
	f.ready.Broadcast()
	f.mu.Unlock()
	<-f.done
}
