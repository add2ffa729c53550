package digest

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/headwater/headwater/flame/export"
)

// candidates is the maximum number of functions in an error.
const candidates = 10

// findFunctions returns the functions with the name text, or else the functions whose names contain it.
func (d *Digest) findFunctions(text string) (found []Entry, err error) {
	if text == "" {
		return nil, errors.New("name a function")
	}
	var like []Entry
	for _, e := range byTotal(d.Functions) {
		switch {
		case e.Name == text:
			found = append(found, e)
		case strings.Contains(strings.ToLower(e.Name), strings.ToLower(text)):
			like = append(like, e)
		}
	}
	names := map[string]bool{}
	var list []string
	for _, e := range like {
		if !names[e.Name] && len(list) < candidates {
			list = append(list, short(e.Name, maxName))
		}
		names[e.Name] = true
	}
	switch {
	case len(found) > 0:
		return found, nil
	case len(names) == 1:
		return like, nil
	case len(names) > 1:
		return nil, fmt.Errorf("%d functions have %q in their names; name one of them, such as: %s", len(names),
			short(text, maxName), strings.Join(list, ", "))
	}
	return nil, fmt.Errorf("no function of the profile has %q in its name", short(text, maxName))
}

// WriteThrough writes the callers and callees of a function, in at most maxLines lines. name is the function's name, or
// a part that occurs in no other function's name.
func (d *Digest) WriteThrough(w io.Writer, name string, maxLines int) error {
	found, err := d.findFunctions(name)
	if err != nil {
		return err
	}
	is := map[export.Frame]bool{}
	for _, e := range found {
		is[export.Frame{Name: e.Name, Binary: e.Binary}] = true
	}
	t := through{callers: table{}, callees: table{}}
	for _, s := range d.stacks {
		t.addStack(s, is)
	}
	out := d.headLines()
	for _, e := range found[:min(len(found), shownOf)] {
		out = append(out, fmt.Sprintf("function: %s; self %s, total %s", function(e), percent(e.Self, d.Total),
			percent(e.Total, d.Total)))
	}
	lines := fit([][]string{
		d.plainFunctions("callers", t.callers.sorted()),
		d.plainFunctions("callees", t.callees.sorted()),
		d.pathLines("most frequent way up", " <- ", hottest(t.up, t.values)),
		d.pathLines("most frequent way down", " -> ", hottest(t.down, t.values)),
	}, max(maxLines, MinLines)-len(out))
	_, err = io.WriteString(w, strings.Join(append(out, slices.Concat(lines...)...), "\n")+"\n")
	return err
}

// through adds up the stacks that contain a function.
type through struct {
	callers, callees table
	up, down         [][]export.Frame // callers and callees, starting with the function
	values           []int64
}

// addStack counts a stack once: the caller of the outermost call, and the callee of the innermost call.
func (t *through) addStack(s export.Stack, is map[export.Frame]bool) {
	outer := slices.IndexFunc(s.Frames, func(f export.Frame) bool { return is[f] })
	if outer < 0 {
		return
	}
	inner := len(s.Frames) - 1
	for !is[s.Frames[inner]] {
		inner--
	}
	caller, callee := Entry{Name: "[no caller: root function]"}, Entry{Name: "[self]"}
	if outer > 0 {
		caller = Entry{Name: s.Frames[outer-1].Name, Binary: s.Frames[outer-1].Binary}
	} else if s.Missing != "" {
		caller = Entry{Name: "[unknown: the stack is not whole]"}
	}
	if inner < len(s.Frames)-1 {
		callee = Entry{Name: s.Frames[inner+1].Name, Binary: s.Frames[inner+1].Binary}
	}
	t.callers.count(caller, s.Value, s.Value)
	t.callees.count(callee, s.Value, s.Value)
	up := slices.Clone(s.Frames[:outer+1])
	slices.Reverse(up)
	t.up, t.down = append(t.up, up), append(t.down, s.Frames[inner:])
	t.values = append(t.values, s.Value)
}

// plainFunctions lists functions with one value.
func (d *Digest) plainFunctions(title string, entries []Entry) []string {
	out := []string{title + ":"}
	for _, e := range entries {
		out = append(out, fmt.Sprintf("  %6s  %s", percent(e.Self, d.Total), function(e)))
	}
	return out
}

func (d *Digest) pathLines(title, arrow string, path []step) []string {
	return []string{title + ":", fmt.Sprintf("  %6s  %s", percent(path[len(path)-1].value, d.Total), arrows(path, arrow))}
}

// WriteTop writes the first entries of one list, and the completeness of the profile. by is function, process or
// binary.
func (d *Digest) WriteTop(w io.Writer, by string, most int) error {
	var list []string
	switch by {
	case "function":
		list = d.table("functions by self", "self", d.Functions)
	case "process":
		if len(d.Processes) == 0 {
			return errors.New("the samples of the profile have no label for the process")
		}
		list = d.plain("processes", d.Processes)
	case "binary":
		list = d.plain("binaries (by innermost frame)", d.Binaries)
	default:
		return fmt.Errorf("by must be function, process or binary, got %q", short(by, maxName))
	}
	out := d.headLines()
	if more := len(list) - 1 - most; more > 0 {
		list = append(list[:most+1], fmt.Sprintf("  and %d more", more))
	}
	_, err := io.WriteString(w, strings.Join(append(out, list...), "\n")+"\n")
	return err
}
