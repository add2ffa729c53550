package main

import (
	"bufio"
	_ "embed"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/headwater/headwater/integration/testkit/walks"
)

//go:embed testdata/sitecustomize.py
var sitecustomize []byte

// faulthandler additionally compares with Python's module faulthandler, which the oracle's handler calls.
type faulthandler struct{ libgcc }

func (faulthandler) flag() string { return " -python" }

func (f faulthandler) compile(dir string) (string, error) {
	if err := os.WriteFile(filepath.Join(dir, "sitecustomize.py"), sitecustomize, 0o644); err != nil {
		return "", err
	}
	return f.libgcc.compile(dir)
}

func (f faulthandler) environment(library string) []string {
	path := filepath.Dir(library) + ":" + os.Getenv("PYTHONPATH")
	return append(f.libgcc.environment(library), "HEADWATER_INSTANT_ASK=1", "PYTHONPATH="+path)
}

func (faulthandler) compare(all []walks.Walk, socket string, examples int) (report, error) {
	traces, err := readTraces(socket)
	if err != nil {
		return nil, err
	}
	r := compare(all, traces, examples)
	r.Python = comparePython(all, traces.asked, examples)
	return r, nil
}

// askedExt is the extension of the files with Python's answers.
const askedExt = ".asked"

// dump is the output of Python's faulthandler for a thread at an instant.
type dump struct {
	entered, left uint64 // like in trace
	frames        []walks.Function
	cut           bool // there are more frames, which it does not report
	crashed       bool // while it read an incomplete list of frames
}

// dumps are in order of time, by thread.
type dumps map[uint32][]dump

// readFile reads a file of dumps. Each consists of "@ TID ENTERED", the output of faulthandler, and "= LEFT", or "!
// LEFT" if faulthandler crashed.
func (all dumps) readFile(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	var now dump
	var tid uint32
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		line := lines.Text()
		switch {
		case strings.HasPrefix(line, "@ "):
			now = dump{}
			if _, err := fmt.Sscanf(line, "@ %d %d", &tid, &now.entered); err != nil {
				return fmt.Errorf("%s: %q: %w", filepath.Base(path), line, err)
			}
		case strings.HasPrefix(line, "= "), strings.HasPrefix(line, "! "):
			if now.left, err = strconv.ParseUint(line[2:], 10, 64); err != nil {
				return fmt.Errorf("%s: %q: %w", filepath.Base(path), line, err)
			}
			now.crashed = line[0] == '!'
			if len(now.frames) > 0 || now.crashed {
				all[tid] = append(all[tid], now)
			}
		case line == "  ...", strings.Contains(line, "<invalid frame>"):
			now.cut = true
		default:
			if function, ok := functionIn(line); ok {
				now.frames = append(now.frames, function)
			}
		}
	}
	return lines.Err()
}

// functionIn reads a line such as `  File "x.py", line 3 in f`.
func functionIn(line string) (f walks.Function, ok bool) {
	rest, ok := strings.CutPrefix(line, `  File "`)
	if !ok {
		return f, false
	}
	f.File, rest, ok = strings.Cut(rest, `", line `)
	number, name, found := strings.Cut(rest, " in ")
	f.Line, _ = strconv.Atoi(number) // "???" gives line 0
	f.Name = name
	return f, ok && found
}

// PythonReport is the result for functions of Python.
type PythonReport struct {
	Stacks  int `json:"stacks"` // with a dump and a sample
	Equal   int `json:"stacks_equal"`
	Frames  int `json:"frames"` // compared
	NoLine  int `json:"frames_without_line"`
	NoName  int `json:"frames_without_name"`
	Unshown int `json:"stacks_not_shown"` // the profiler shows no functions
	NoLeaf  int `json:"stacks_without_leaf"`
	// NoSample counts dumps without a sample.
	NoSample int      `json:"dumps_without_sample"`
	Crashed  int      `json:"dumps_crashed"` // Python's own walk crashed
	Wrong    int      `json:"stacks_wrong"`
	WrongOne int      `json:"frames_wrong"`
	Examples []string `json:"examples,omitempty"`
}

// comparePython compares each dump with the functions of its sample.
func comparePython(all []walks.Walk, asked dumps, examples int) *PythonReport {
	r := &PythonReport{}
	byThread := map[uint32][]walks.Walk{}
	for _, w := range all {
		byThread[w.TID] = append(byThread[w.TID], w)
	}
	for tid, list := range asked {
		samples := byThread[tid]
		next, handled := 0, uint64(0)
		for i := range list {
			d := &list[i]
			var of *walks.Walk
			for ; next < len(samples) && samples[next].Time < d.entered; next++ {
				if samples[next].Time > handled {
					of = &samples[next]
				}
			}
			handled = d.left
			switch {
			case d.crashed:
				r.Crashed++
			case of == nil:
				r.NoSample++
			default:
				r.compare(of, d, examples)
			}
		}
	}
	return r
}

// compare compares a sample with Python's dump.
func (r *PythonReport) compare(w *walks.Walk, d *dump, examples int) {
	r.Stacks++
	if len(w.Functions) == 0 {
		r.Unshown++
		r.example(examples, "not shown", w, d)
		return
	}
	said := d.frames
	if missing := len(said) - len(w.Functions); !d.cut && missing == 1 {
		said = said[1:] // it is being entered or left
		r.NoLeaf++
	}
	wrong := 0
	if !d.cut && len(said) != len(w.Functions) {
		wrong++
	}
	for i := range min(len(said), len(w.Functions)) {
		r.Frames++
		ours := w.Functions[i]
		switch {
		case ours.Name == "": // its code object was freed before it could be read
			r.NoName++
		case !sameFunction(ours, said[i]) || ours.Line != 0 && ours.Line != said[i].Line:
			wrong++
		case ours.Line == 0 && said[i].Line != 0:
			r.NoLine++
		}
	}
	if wrong == 0 {
		r.Equal++
		return
	}
	r.Wrong++
	r.WrongOne += wrong
	r.example(examples, "wrong", w, d)
}

func (r *PythonReport) example(examples int, kind string, w *walks.Walk, d *dump) {
	if len(r.Examples) >= examples {
		return
	}
	text := fmt.Sprintf("%s (%s, %s):\n", kind, w.Comm, w.Outcome)
	for i := range max(len(w.Functions), len(d.frames)) {
		var pair [2]walks.Function
		if i < len(w.Functions) {
			pair[0] = w.Functions[i]
		}
		if i < len(d.frames) {
			pair[1] = d.frames[i]
		}
		text += fmt.Sprintf("  %s %s:%d\t%s %s:%d\n", pair[0].Name, pair[0].File, pair[0].Line, pair[1].Name, pair[1].File,
			pair[1].Line)
	}
	for _, f := range w.Frames {
		text += fmt.Sprintf("    %s+%#x\n", filepath.Base(f.File), f.Address)
	}
	r.Examples = append(r.Examples, text)
}

// sameFunction reports whether a function is the one that faulthandler names. faulthandler reports the name without
// enclosing functions and classes, in ASCII, and truncated if it is long.
func sameFunction(ours, said walks.Function) bool {
	return sameText(ours.File, said.File) &&
		(sameText(ours.Name, said.Name) || sameText(ours.Name[strings.LastIndex(ours.Name, ".")+1:], said.Name))
}

func sameText(ours, said string) bool {
	var ascii strings.Builder
	for _, c := range ours {
		switch {
		case c >= ' ' && c < 0x7f:
			ascii.WriteRune(c)
		case c < 0x100:
			fmt.Fprintf(&ascii, `\x%02x`, c)
		case c < 0x10000:
			fmt.Fprintf(&ascii, `\u%04x`, c)
		default:
			fmt.Fprintf(&ascii, `\U%08x`, c)
		}
	}
	if head, cut := strings.CutSuffix(said, "..."); cut && strings.HasPrefix(ascii.String(), head) {
		return true
	}
	return ascii.String() == said
}

func (r *PythonReport) print(w io.Writer) {
	fmt.Fprintf(w, "python: %d stacks, %d equal, %d wrong (%d frames), %d not shown, %d without the leaf; "+
		"%d frames compared, %d without a line, %d without a name; %d dumps without a sample, %d crashed\n",
		r.Stacks, r.Equal, r.Wrong, r.WrongOne, r.Unshown, r.NoLeaf, r.Frames, r.NoLine, r.NoName, r.NoSample, r.Crashed)
	for _, e := range r.Examples {
		fmt.Fprintln(w, e)
	}
}
