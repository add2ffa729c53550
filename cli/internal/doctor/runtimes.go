package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/headwater/headwater/ebpf/host/procfs"
	"github.com/headwater/headwater/ebpf/language"
	"github.com/headwater/headwater/ebpf/language/all"
	"github.com/headwater/headwater/ebpf/object/elffile"
)

// Runtime is a language runtime that processes have mapped.
type Runtime struct {
	Name  string   `json:"name"` // with its version: "python 3.11"
	State State    `json:"state"`
	File  string   `json:"file"` // as the first process sees it
	PIDs  []uint32 `json:"pids"`
	Hint  string   `json:"hint,omitempty"` // why its functions are not named, and what to do
}

// shownPIDs is the maximum number of processes in a line.
const shownPIDs = 5

func (r *Runtime) where() string {
	var pids []string
	for _, pid := range r.PIDs[:min(len(r.PIDs), shownPIDs)] {
		pids = append(pids, fmt.Sprint(pid))
	}
	if more := len(r.PIDs) - len(pids); more > 0 {
		pids = append(pids, fmt.Sprintf("and %d more", more))
	}
	return r.File + ", process " + strings.Join(pids, ", ")
}

// survey finds runtimes.
type survey struct {
	all []language.Language

	mu    sync.Mutex
	found map[string]*Runtime // by name and file
}

// runtimes returns the runtimes that are found until ctx is done. Files may be on mounts that hang; runtimes does not
// wait for them.
func runtimes(ctx context.Context) (out []Runtime) {
	s := &survey{all: all.All(), found: map[string]*Runtime{}}
	done := make(chan struct{})
	go func() {
		defer close(done)
		pids, _ := procfs.Default.PIDs() // without /proc there are no processes
		for _, pid := range pids {
			if ctx.Err() != nil {
				return
			}
			s.process(pid)
		}
	}()
	select {
	case <-done:
	case <-ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.found {
		out = append(out, *r)
	}
	slices.SortFunc(out, func(a, b Runtime) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.File, b.File))
	})
	return out
}

// process records the runtimes of a process. It may lack permission to read the process's files.
func (s *survey) process(pid uint32) {
	mappings, err := procfs.Default.ExecMappings(pid)
	if err != nil {
		return
	}
	seen := map[string]bool{}
	for _, m := range mappings {
		if !m.HasFile() || m.Deleted || seen[m.Path] {
			continue
		}
		seen[m.Path] = true
		s.mapping(pid, m)
	}
}

func (s *survey) mapping(pid uint32, m procfs.Mapping) {
	f, err := procfs.Open(fmt.Sprintf("/proc/%d/root", pid), m.Path)
	if err != nil {
		return
	}
	defer f.Close()
	file, err := elffile.New(f)
	if err != nil {
		return
	}
	defer file.Close()
	bias, _ := file.Bias(m.Start, m.End, m.Offset)
	for _, detector := range s.all {
		if library := detector.Detect(m.Path, file); library != nil {
			s.addRuntime(describe(library, language.Process{PID: pid, Bias: bias, Memory: procfs.Memory{PID: pid}}), pid, m.Path)
			return
		}
	}
}

// describe returns the runtime of a library in a process, and why its functions have no names.
func describe(library language.Library, p language.Process) Runtime {
	found, err := library.FindFrames(p)
	var unnamed *language.UnnamedError
	switch {
	case err == nil:
		return Runtime{Name: strings.Trim(found.Name(), "[]"), State: OK}
	case errors.As(err, &unnamed):
		name := strings.TrimSuffix(strings.Trim(unnamed.Frame, "[]"), " code")
		return Runtime{Name: name, State: Warn, Hint: unnamed.Hint}
	case errors.Is(err, language.ErrUnknown):
		return Runtime{}
	}
	return Runtime{Name: "?", State: Warn, Hint: err.Error()}
}

func (s *survey) addRuntime(r Runtime, pid uint32, file string) {
	if r.Name == "" {
		return
	}
	if r.Name == "?" {
		r.Name = path.Base(file)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	key := r.Name + "\x00" + file
	if s.found[key] == nil {
		r.File = file
		s.found[key] = &r
	}
	s.found[key].PIDs = append(s.found[key].PIDs, pid)
}
