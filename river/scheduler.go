package river

import (
	"context"
	"sort"
	"strings"
	"sync"
	"time"

	"github.com/go-kit/log"
	"github.com/go-kit/log/level"
)

// scheduler runs components, each in its own goroutine.
type scheduler struct {
	logger log.Logger

	mu     sync.Mutex
	tasks  map[string]*task // newest task of each ID, including tasks that are stopping
	closed bool
}

// task is one run of a component.
type task struct {
	node   runnable
	cancel context.CancelFunc
	done   chan struct{} // closed after run returned
}

func (t *task) finished() bool {
	select {
	case <-t.done:
		return true
	default:
		return false
	}
}

func newScheduler(logger log.Logger) *scheduler {
	return &scheduler{logger: logger, tasks: map[string]*task{}}
}

// synchronize starts the nodes of wanted that do not run yet and stops all other nodes, without
// waiting. With restart, it also starts nodes that have exited.
func (s *scheduler) synchronize(wanted []runnable, restart bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}

	keep := make(map[runnable]bool, len(wanted))
	for _, n := range wanted {
		keep[n] = true
	}
	var unwanted []*task
	for _, t := range s.tasks {
		if !keep[t.node] {
			unwanted = append(unwanted, t)
		}
	}
	s.stopTasks(unwanted)

	for _, n := range wanted {
		if !n.built() {
			continue // not built yet
		}
		known := s.tasks[n.id()]
		if known == nil || known.node != n || restart && known.finished() {
			s.tasks[n.id()] = start(n, known)
		}
	}
}

// start runs a component after the earlier task with the same ID has ended, because two components
// with one name may need the same port, file or program.
func start(n runnable, earlier *task) *task {
	ctx, cancel := context.WithCancel(context.Background())
	t := &task{node: n, cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(t.done)
		defer cancel()
		if earlier != nil {
			<-earlier.done
		}
		if ctx.Err() == nil {
			n.runComponent(ctx)
		}
	}()
	return t
}

// stopTasks ends tasks in the background. It cancels a component after all its users have returned, so
// that they can still send their last data to it.
func (s *scheduler) stopTasks(tasks []*task) {
	users := usersAmong(tasks)
	for _, t := range tasks {
		go func() {
			for _, user := range users[t] {
				<-user.done
			}
			t.cancel()
			<-t.done

			s.mu.Lock()
			defer s.mu.Unlock()
			if s.tasks[t.node.id()] == t {
				delete(s.tasks, t.node.id())
			}
		}()
	}
}

// usersAmong returns for each task the tasks in the list that depend on it.
func usersAmong(tasks []*task) map[*task][]*task {
	byNode := make(map[node]*task, len(tasks))
	for _, t := range tasks {
		byNode[t.node] = t
	}
	users := map[*task][]*task{}
	for _, t := range tasks {
		for _, d := range t.node.references() {
			if used := byNode[d]; used != nil {
				users[used] = append(users[used], t)
			}
		}
	}
	return users
}

// close stops all tasks, each before the tasks that it uses, and waits. After patience it cancels
// the remaining tasks without waiting for their users, and waits one more second.
func (s *scheduler) close(patience time.Duration) {
	s.mu.Lock()
	s.closed = true
	tasks := make([]*task, 0, len(s.tasks))
	for _, t := range s.tasks {
		tasks = append(tasks, t)
	}
	s.stopTasks(tasks)
	s.mu.Unlock()

	if waitFor(tasks, patience) {
		return
	}
	level.Warn(s.logger).Log("msg", "components take too long to stop", "components", running(tasks), "waited", patience)
	for _, t := range tasks {
		t.cancel()
	}
	if !waitFor(tasks, time.Second) {
		level.Error(s.logger).Log("msg", "components do not stop; the program ends without them",
			"components", running(tasks))
	}
}

// waitFor reports whether all tasks end within patience.
func waitFor(tasks []*task, patience time.Duration) bool {
	timer := time.NewTimer(patience)
	defer timer.Stop()
	for _, t := range tasks {
		select {
		case <-t.done:
		case <-timer.C:
			return false
		}
	}
	return true
}

func running(tasks []*task) string {
	var ids []string
	for _, t := range tasks {
		if !t.finished() {
			ids = append(ids, t.node.id())
		}
	}
	sort.Strings(ids)
	return strings.Join(ids, ", ")
}
