package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// contender is a profiler to measure.
type contender struct {
	name      string
	binary    string
	arguments string        // with {rate}, {interval}, {sink}, {config}, {listen} and {dir}
	config    string        // configuration file, with {rate}, {interval}, {sink}, {pids} and {block}
	forStacks string        // additional arguments for measurements of its stacks
	finest    time.Duration // its shortest report interval
	block     string        // of Headwater: additional arguments and blocks of its component
	tracefs   bool          // needs tracefs, which is mounted in a separate mount namespace
	unjudged  bool          // its profiles do not mark incomplete stacks
}

const (
	headwaterArguments = "run --server.http.listen-addr={listen} --storage.path={dir}/data {config}"
	alloyArguments     = "run --server.http.listen-addr={listen} --storage.path={dir}/data --disable-reporting {config}"
	peerArguments      = "-samples-per-second {rate} -reporter-interval {interval} -collection-agent {sink} -disable-tls"
	peerStackArguments = "-send-error-frames"
)

// hostConfig profiles the whole host and sends to the sink, like the other contenders.
const hostConfig = `pyroscope.ebpf "bench" {
	forward_to       = [pyroscope.write.sink.receiver]
	targets_only     = false
	default_target   = {"service_name" = "bench"}
	collect_interval = "{interval}"
	sample_rate      = {rate}
	pid_label        = {pids}
	{block}
}
` + writeConfig

// alloyConfig does the same in Alloy, which has no default_target, and reports names of processes only on request.
const alloyConfig = `pyroscope.ebpf "bench" {
	forward_to       = [pyroscope.write.sink.receiver]
	targets_only     = false
	collect_interval = "{interval}"
	sample_rate      = {rate}
	pid_label        = {pids}
	comm             = "stackframe"
}
` + writeConfig

const writeConfig = `
pyroscope.write "sink" {
	endpoint {
		url = "http://{sink}"
	}
}
`

// settings are the settings for a run of a contender.
type settings struct {
	rate     int           // samples per second and CPU
	interval time.Duration // between reports
	stacks   bool          // its stacks will be examined
	pids     bool          // samples must name their processes, as the peer's always do
}

// profiler is a running contender.
type profiler struct {
	contender
	pid        int
	begin      time.Time
	startup    time.Duration // until the first sample
	startupCPU time.Duration
	command    *exec.Cmd
	output     *strings.Builder
	ended      chan error
	sink       *sink
	dir        string
	address    string // of its HTTP server, if any
}

// firstSampleAfter bounds the time of a start: it takes most of a minute in an emulated machine.
const firstSampleAfter = 5 * time.Minute

// start starts the contender and waits for its first sample. The caller must keep some CPU busy, because idle CPUs may
// yield no samples.
func (c contender) start(how settings) (*profiler, error) {
	p := &profiler{contender: c, output: new(strings.Builder), ended: make(chan error, 1)}
	if err := p.launch(how); err != nil {
		p.release()
		return nil, fmt.Errorf("start %s: %w", c.name, err)
	}
	for {
		if r, err := sampleRuns(p.pid); err == nil && r.count > 0 {
			p.startup = time.Since(p.begin)
			p.startupCPU, err = cpuTime(p.pid)
			return p, err
		}
		select {
		case err := <-p.ended:
			p.release()
			return nil, fmt.Errorf("%s ended at once: %v\n%s", c.name, err, p.output)
		case <-time.After(2 * time.Millisecond):
		}
		if time.Since(p.begin) > firstSampleAfter {
			p.stopProfiler()
			return nil, fmt.Errorf("%s took no sample in %v\n%s", c.name, firstSampleAfter, p.output)
		}
	}
}

// launch starts the process.
func (p *profiler) launch(how settings) (err error) {
	if p.dir, err = os.MkdirTemp("", "headwater-bench-"); err != nil {
		return err
	}
	if p.sink, err = startSink(); err != nil {
		return err
	}
	if p.address, err = freeAddress(); err != nil {
		return err
	}
	config := filepath.Join(p.dir, "config.river")
	filled := strings.NewReplacer("{rate}", fmt.Sprint(how.rate), "{interval}", max(how.interval, p.finest).String(),
		"{sink}", p.sink.addr, "{pids}", fmt.Sprint(how.pids), "{block}", p.block,
		"{config}", config, "{listen}", p.address, "{dir}", p.dir)
	if err := os.WriteFile(config, []byte(filled.Replace(p.config)), 0o644); err != nil {
		return err
	}
	template := p.arguments
	if how.stacks {
		template += " " + p.forStacks
	}
	arguments := expand(template, filled)
	p.command = exec.Command(p.binary, arguments...)
	if p.tracefs {
		script := `mount -t tracefs tracefs /sys/kernel/tracing && exec "$@"`
		p.command = exec.Command("unshare", append([]string{"-m", "sh", "-c", script, "sh", p.binary}, arguments...)...)
	}
	p.command.Stdout, p.command.Stderr = p.output, p.output
	p.command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	p.begin = time.Now()
	if err := p.command.Start(); err != nil {
		return err
	}
	p.pid = p.command.Process.Pid
	go func() { p.ended <- p.command.Wait() }()
	return nil
}

// stopProfiler ends the profiler like a user.
func (p *profiler) stopProfiler() error {
	defer p.release()
	if err := p.command.Process.Signal(syscall.SIGTERM); err != nil {
		return fmt.Errorf("stop %s: %w", p.name, err)
	}
	select {
	case <-p.ended:
		return nil
	case <-time.After(20 * time.Second):
		return errors.Join(fmt.Errorf("%s does not stop", p.name), p.command.Process.Kill())
	}
}

func (p *profiler) release() {
	if p.sink != nil {
		p.sink.close()
	}
	if p.dir != "" {
		os.RemoveAll(p.dir)
	}
}

// expand splits a template at blanks and replaces {names} with their values.
func expand(template string, values *strings.Replacer) []string {
	words := strings.Fields(template)
	for i := range words {
		words[i] = values.Replace(words[i])
	}
	return words
}

// freeAddress returns a loopback address without a listener.
func freeAddress() (string, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer listener.Close()
	return listener.Addr().String(), nil
}
