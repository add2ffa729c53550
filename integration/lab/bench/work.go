package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// work is a running workload.
type work []*exec.Cmd

// stopPrograms ends the workload and its child processes.
func (w work) stopPrograms() {
	for _, cmd := range w {
		syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	}
	for _, cmd := range w {
		cmd.Wait()
	}
}

// workshop holds the programs of the workloads.
type workshop struct {
	dir      string
	clang    string // "" if it is not installed
	node     string
	chromium string
	spawn    string
	chains   map[int]string
	burner   string // keeps CPUs from being idle
}

const (
	shortFrames = 14 // depth of the short-lived programs
	busyFrames  = 12 // depth of the programs that only keep CPUs from being idle
)

// newWorkshop compiles the required programs into a directory.
func newWorkshop(dir string, depths []int) (*workshop, error) {
	w := &workshop{dir: dir, chains: map[int]string{}, spawn: filepath.Join(dir, "spawn")}
	for _, frames := range append([]int{shortFrames, busyFrames}, depths...) {
		path, err := buildChain(dir, frames)
		if err != nil {
			return nil, err
		}
		w.chains[frames] = path
	}
	w.burner = w.chains[busyFrames]
	if out, err := exec.Command("gcc", "-O2", "-o", w.spawn, source("spawn.c")).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("gcc spawn.c: %w\n%s", err, out)
	}
	w.clang = findTool("clang-19", "clang-14", "clang")
	w.node = findTool("node", "nodejs")
	w.chromium = findTool("chromium")
	return w, w.writeModule()
}

// source returns the path of a file in testdata. The command runs in the repository's root.
func source(name string) string { return filepath.Join("integration/lab/bench/testdata", name) }

func findTool(names ...string) string {
	for _, name := range names {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	return ""
}

// writeModule makes a small Go module for `go build -a`.
func (w *workshop) writeModule() error {
	const program = "package main\n\nimport (\n\t\"encoding/json\"\n\t\"net/http\"\n\t\"os\"\n)\n\n" +
		"func main() { json.NewEncoder(os.Stdout).Encode(http.DefaultTransport) }\n"
	module := filepath.Join(w.dir, "module")
	return errors.Join(
		os.MkdirAll(module, 0o755),
		os.WriteFile(filepath.Join(module, "go.mod"), []byte("module bench\n"), 0o644),
		os.WriteFile(filepath.Join(module, "main.go"), []byte(program), 0o644),
	)
}

// shell runs scripts until the work is stopped.
func (w *workshop) shell(scripts ...string) (work, error) {
	var commands []*exec.Cmd
	for _, script := range scripts {
		cmd := exec.Command("sh", "-c", script)
		cmd.Env = append(os.Environ(), "GOCACHE="+filepath.Join(w.dir, "gocache"), "GOPROXY=off", "GOFLAGS=-buildvcs=false")
		commands = append(commands, cmd)
	}
	return start(commands...)
}

// start runs commands until the work is stopped.
func start(commands ...*exec.Cmd) (work, error) {
	var running work
	for _, cmd := range commands {
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
		if err := cmd.Start(); err != nil {
			running.stopPrograms()
			return nil, err
		}
		running = append(running, cmd)
	}
	return running, nil
}

// clangBuild compiles C++ on each CPU repeatedly.
func (w *workshop) clangBuild() (work, error) {
	var scripts []string
	for cpu := range runtime.NumCPU() {
		scripts = append(scripts, fmt.Sprintf("while :; do (%s) || exit; done", w.compile("containers text", cpu)))
	}
	return w.shell(scripts...)
}

// compile returns a script that compiles some of the files in testdata/build once.
func (w *workshop) compile(files string, cpu int) string {
	return fmt.Sprintf("cd %s && for f in %s; do %s -w -O2 -std=c++17 -c -o %s/$f.%d.o $f.cc || exit; done",
		source("build"), files, w.clang, w.dir, cpu)
}

// goBuild builds a small module and its packages of the standard library repeatedly.
func (w *workshop) goBuild() (work, error) {
	return w.shell(fmt.Sprintf("cd %s/module && while :; do go build -a -o bench . || exit; done", w.dir))
}

// chain runs a chain program on each CPU.
func (w *workshop) chain(frames, nice int) (burners, error) {
	return startBurners(w.chains[frames], nice)
}

// short is a stream of processes that each burn some CPU and end.
type short struct {
	milliseconds int
	rate         int      // per second
	arguments    []string // of the chain program; nil: only milliseconds
}

// living is a stream of processes that live for 5 to 20 ms, mostly asleep: they use a CPU for 2 to 8 ms.
var living = short{5, 200, []string{"2", "8", "2.5"}}

// shortProcesses runs a stream of processes for a while and returns their number.
func (w *workshop) shortProcesses(s short, length time.Duration) (int, error) {
	arguments := s.arguments
	if arguments == nil {
		arguments = []string{fmt.Sprint(s.milliseconds)}
	}
	arguments = append([]string{fmt.Sprint(s.rate), fmt.Sprint(length.Seconds()), w.chains[shortFrames]}, arguments...)
	cmd := exec.Command(w.spawn, arguments...)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := cmd.Output()
	if err != nil {
		return 0, fmt.Errorf("spawn: %w\n%s", err, &errs)
	}
	return strconv.Atoi(strings.TrimSpace(string(out)))
}
