package main

import (
	"bufio"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/google/pprof/profile"
)

// resident shows how much of the unwind tables is in memory while a workload runs,
// and how large the profiler's heap was, beside what whole tables would take.
func resident(o options, dir string) error {
	w, err := newWorkshop(dir, nil)
	if err != nil {
		return err
	}
	for _, load := range w.residentWork() {
		if !o.only.MatchString(load.title) {
			continue
		}
		if load.missing {
			fmt.Printf("%s: not installed\n\n", load.title)
			continue
		}
		if err := measureResident(o, load); err != nil {
			return fmt.Errorf("%s: %w", load.title, err)
		}
	}
	return nil
}

type residentWork struct {
	title   string
	missing bool
	start   func() (work, error)
}

func (w *workshop) residentWork() []residentWork {
	return []residentWork{
		{"clang -O2 on each CPU", w.clang == "", w.clangBuild},
		{"chromium rendering pages", w.chromium == "", w.browse},
	}
}

// pollInterval is between two looks at the profiler's memory. To answer costs the
// profiler memory, too.
const pollInterval = 500 * time.Millisecond

// measureResident profiles the machine while a workload runs.
func measureResident(o options, load residentWork) error {
	running, err := load.start()
	if err != nil {
		return err
	}
	defer running.stop()
	time.Sleep(time.Second)
	p, err := o.contenders()[0].start(settings{rate: o.rate, interval: reportInterval})
	if err != nil {
		return err
	}
	defer p.stop()
	files := newFiles()
	var most gauges
	for end := time.Now().Add(o.time); time.Now().Before(end); time.Sleep(pollInterval) {
		now, err := p.gauges()
		if err != nil {
			return err
		}
		most.raise(now)
		files.scan()
	}
	last, err := p.gauges()
	if err != nil {
		return err
	}
	allocated, err := p.allocated()
	if err != nil {
		return err
	}
	bpf, err := sampleRuns(p.pid)
	if err != nil {
		return err
	}
	cpu, err := cpuTime(p.pid)
	if err != nil {
		return err
	}
	running.stop()
	if err := files.markSampled(p.sink.take()); err != nil {
		return err
	}
	whole, err := files.measure(o.binary)
	if err != nil {
		return err
	}
	result := residentResult{most: most, last: last, allocated: allocated, bpf: bpf, whole: whole}
	result.minutes = time.Since(p.begin).Minutes()
	result.cpu = cpu
	return result.write(os.Stdout, load.title)
}

// gauges are what the profiler says of its memory, in bytes but for counts.
type gauges struct{ rows, rowBytes, usedBytes, tableBytes, heap, copies, delivered float64 }

// raise keeps the larger value of each.
func (g *gauges) raise(o gauges) {
	*g = gauges{
		max(g.rows, o.rows), max(g.rowBytes, o.rowBytes), max(g.usedBytes, o.usedBytes), max(g.tableBytes, o.tableBytes),
		max(g.heap, o.heap), max(g.copies, o.copies), max(g.delivered, o.delivered),
	}
}

// gauges reads the profiler's metrics. Those of tables are as of its last report.
func (p *profiler) gauges() (g gauges, err error) {
	answer, err := http.Get("http://" + p.address + "/metrics")
	if err != nil {
		return g, err
	}
	defer answer.Body.Close()
	wanted := map[string]*float64{
		"pyroscope_ebpf_unwind_rows": &g.rows, "pyroscope_ebpf_unwind_row_bytes": &g.rowBytes, "pyroscope_ebpf_unwind_used_bytes": &g.usedBytes,
		"pyroscope_ebpf_unwind_table_bytes": &g.tableBytes, "go_memstats_heap_inuse_bytes": &g.heap,
		"pyroscope_ebpf_stacks_copied_total": &g.copies, "pyroscope_ebpf_samples_delivered_total": &g.delivered,
	}
	lines := bufio.NewScanner(answer.Body)
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), " ")
		name, _, _ = strings.Cut(name, "{")
		if to := wanted[name]; to != nil {
			if *to, err = strconv.ParseFloat(value, 64); err != nil {
				return g, fmt.Errorf("metric %s: %w", name, err)
			}
			delete(wanted, name)
		}
	}
	for name := range wanted {
		err = errors.Join(err, fmt.Errorf("no metric %s", name))
	}
	return g, errors.Join(err, lines.Err())
}

// rowMakers are the packages that make unwind rows and do nothing else.
var rowMakers = []string{"/ebpf/unwind.", "/ebpf/ehframe."}

// allocated returns how many bytes of heap making unwind rows has taken so far, by
// the profiler's own sampled count.
func (p *profiler) allocated() (bytes float64, err error) {
	answer, err := http.Get("http://" + p.address + "/debug/pprof/allocs")
	if err != nil {
		return 0, err
	}
	defer answer.Body.Close()
	heap, err := profile.Parse(answer.Body)
	if err != nil {
		return 0, err
	}
	const space = 1 // alloc_objects, alloc_space, inuse_objects, inuse_space
	for _, s := range heap.Sample {
		if makesRows(s) {
			bytes += float64(s.Value[space])
		}
	}
	return bytes, nil
}

func makesRows(s *profile.Sample) bool {
	for _, location := range s.Location {
		for _, line := range location.Line {
			for _, name := range rowMakers {
				if line.Function != nil && strings.Contains(line.Function.Name, name) {
					return true
				}
			}
		}
	}
	return false
}

// browse renders pages in a browser without a window.
func (w *workshop) browse() (work, error) {
	page, err := filepath.Abs(source("page.html"))
	if err != nil {
		return nil, err
	}
	data, err := os.MkdirTemp(w.dir, "chromium-")
	if err != nil {
		return nil, err
	}
	return w.shell(fmt.Sprintf("exec %s --headless --no-sandbox --no-first-run --disable-gpu --disable-background-networking --disable-component-update "+
		"--disable-sync --remote-debugging-port=0 --user-data-dir=%s file://%s 2>/dev/null", w.chromium, data, page))
}
