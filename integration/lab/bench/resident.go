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

// resident shows the part of the unwind tables that is in memory while a workload runs, and the size of the profiler's
// heap, compared with the size of whole tables.
func resident(o options, dir string, save func(any) error) error {
	w, err := newWorkshop(dir, nil)
	if err != nil {
		return err
	}
	var all []residentReport
	for _, load := range w.residentWork() {
		if !o.only.MatchString(load.title) {
			continue
		}
		if load.missing {
			fmt.Printf("%s: not installed\n\n", load.title)
			continue
		}
		result, err := measureResident(o, load)
		if err != nil {
			return fmt.Errorf("%s: %w", load.title, err)
		}
		report := result.report(load)
		if err := report.write(os.Stdout); err != nil {
			return err
		}
		all = append(all, report)
	}
	return save(all)
}

type residentWork struct {
	key     string
	title   string
	missing bool
	start   func() (work, error)
}

func (w *workshop) residentWork() []residentWork {
	return []residentWork{
		{"clang", "clang -O2 on each CPU", w.clang == "", w.clangBuild},
		{"chromium", "chromium rendering pages", w.chromium == "", w.browse},
	}
}

// pollInterval is the time between two reads of the profiler's memory. An answer costs the profiler memory too.
const pollInterval = 500 * time.Millisecond

// heapPolls is the number of polls per read of the heap, which is more expensive.
const heapPolls = 10

// measureResident profiles the machine while a workload runs.
func measureResident(o options, load residentWork) (result residentResult, err error) {
	running, err := load.start()
	if err != nil {
		return result, err
	}
	defer running.stopPrograms()
	time.Sleep(time.Second)
	p, err := o.contenders()[0].start(settings{rate: o.rate, interval: o.interval})
	if err != nil {
		return result, err
	}
	defer p.stopProfiler()
	files := newFiles()
	for poll, end := 0, time.Now().Add(o.time); time.Now().Before(end); poll++ {
		now, err := p.gauges()
		if err != nil {
			return result, err
		}
		result.most.raise(now)
		files.scanMappings()
		if poll%heapPolls == 0 {
			now, err := p.heapOfRows()
			if err != nil {
				return result, err
			}
			result.heap = heapOfRows{max(result.heap.allocated, now.allocated), max(result.heap.inUse, now.inUse)}
		}
		time.Sleep(pollInterval)
	}
	if result.last, err = p.gauges(); err != nil {
		return result, err
	}
	if result.bpf, err = sampleRuns(p.pid); err != nil {
		return result, err
	}
	if result.cpu, err = cpuTime(p.pid); err != nil {
		return result, err
	}
	result.minutes = time.Since(p.begin).Minutes()
	running.stopPrograms()
	if err := files.markSampled(p.sink.takeMessages()); err != nil {
		return result, err
	}
	result.whole, err = files.measure()
	return result, err
}

// gauges are the profiler's figures about its memory: counts, or bytes.
type gauges struct{ rows, rowBytes, usedBytes, tableBytes, heap, copies, delivered float64 }

// raise keeps the larger value of each gauge.
func (g *gauges) raise(o gauges) {
	*g = gauges{
		max(g.rows, o.rows), max(g.rowBytes, o.rowBytes), max(g.usedBytes, o.usedBytes), max(g.tableBytes, o.tableBytes),
		max(g.heap, o.heap), max(g.copies, o.copies), max(g.delivered, o.delivered),
	}
}

// gauges reads the profiler's metrics. The figures of tables are as of its last report.
func (p *profiler) gauges() (g gauges, err error) {
	answer, err := http.Get("http://" + p.address + "/metrics")
	if err != nil {
		return g, err
	}
	defer answer.Body.Close()
	wanted := map[string]*float64{
		"pyroscope_ebpf_unwind_rows": &g.rows, "pyroscope_ebpf_unwind_row_bytes": &g.rowBytes,
		"pyroscope_ebpf_unwind_used_bytes":  &g.usedBytes,
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

// rowMakers are the packages that only make unwind rows; rowKeepers keep account of resident rows, of the executables
// and of processes.
var (
	rowMakers  = []string{"/ebpf/unwind.", "/ebpf/unwind/unwindtable.", "/ebpf/unwind/ehframe."}
	rowKeepers = []string{"/ebpf/process.", "/ebpf/kernel.(*Tables)", "/ebpf/unwind/tablestore."}
)

// heapOfRows is the heap used for unwind rows, in bytes, estimated from the profiler's own heap profile.
type heapOfRows struct {
	allocated float64 // by making rows, so far
	inUse     float64 // by rows, and by keeping account of rows
}

func (p *profiler) heapOfRows() (h heapOfRows, err error) {
	answer, err := http.Get("http://" + p.address + "/debug/pprof/allocs")
	if err != nil {
		return h, err
	}
	defer answer.Body.Close()
	heap, err := profile.Parse(answer.Body)
	if err != nil {
		return h, err
	}
	const allocSpace, inUseSpace = 1, 3 // alloc_objects, alloc_space, inuse_objects, inuse_space
	for _, s := range heap.Sample {
		makes := calls(s, rowMakers)
		if makes {
			h.allocated += float64(s.Value[allocSpace])
		}
		if makes || calls(s, rowKeepers) {
			h.inUse += float64(s.Value[inUseSpace])
		}
	}
	return h, nil
}

// calls reports whether the stack has a function whose name contains one of the parts.
func calls(s *profile.Sample, parts []string) bool {
	for _, location := range s.Location {
		for _, line := range location.Line {
			for _, part := range parts {
				if line.Function != nil && strings.Contains(line.Function.Name, part) {
					return true
				}
			}
		}
	}
	return false
}

// browse renders pages in a headless browser.
func (w *workshop) browse() (work, error) {
	page, err := filepath.Abs(source("page.html"))
	if err != nil {
		return nil, err
	}
	data, err := os.MkdirTemp(w.dir, "chromium-")
	if err != nil {
		return nil, err
	}
	return w.shell(fmt.Sprintf("exec %s --headless --no-sandbox --no-first-run --disable-gpu "+
		"--disable-background-networking --disable-component-update "+
		"--disable-sync --remote-debugging-port=0 --user-data-dir=%s file://%s 2>/dev/null", w.chromium, data, page))
}
