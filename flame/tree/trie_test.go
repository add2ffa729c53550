package tree

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/pprof/profile"
)

// maker makes profiles.
type maker struct {
	*profile.Profile
	byName map[string]*profile.Location
}

func newMaker() *maker {
	cpu := &profile.ValueType{Type: "cpu", Unit: "nanoseconds"}
	return &maker{
		Profile: &profile.Profile{SampleType: []*profile.ValueType{cpu}, PeriodType: cpu, Period: 10_000_000},
		byName:  map[string]*profile.Location{},
	}
}

func (m *maker) mapping(file string) *profile.Mapping {
	for _, have := range m.Mapping {
		if have.File == file {
			return have
		}
	}
	made := &profile.Mapping{ID: uint64(len(m.Mapping) + 1), File: file, HasFunctions: true}
	m.Mapping = append(m.Mapping, made)
	return made
}

// location returns the location of "file:function" or "file:outer|inlined". Without a file it has no mapping.
func (m *maker) location(text string) *profile.Location {
	if l := m.byName[text]; l != nil {
		return l
	}
	file, names, _ := strings.Cut(text, ":")
	l := &profile.Location{ID: uint64(len(m.Location) + 1), Address: uint64(len(m.Location)+1) * 16}
	if file != "" {
		l.Mapping = m.mapping(file)
	}
	for _, name := range strings.Split(names, "|") {
		f := &profile.Function{ID: uint64(len(m.Function) + 1), Name: name, SystemName: name, StartLine: 7}
		m.Function = append(m.Function, f)
		l.Line = append([]profile.Line{{Function: f, Line: int64(len(m.Location) + 10)}}, l.Line...)
	}
	m.Location = append(m.Location, l)
	m.byName[text] = l
	return l
}

// sample adds a sample, root first.
func (m *maker) sample(value int64, stack ...string) {
	s := &profile.Sample{Value: []int64{value}}
	for i := len(stack) - 1; i >= 0; i-- {
		s.Location = append(s.Location, m.location(stack[i]))
	}
	m.Sample = append(m.Sample, s)
}

func treeOf(t testing.TB, o Options, profiles ...*profile.Profile) *Tree {
	t.Helper()
	b := NewBuilder(nil)
	for _, p := range profiles {
		if err := p.CheckValid(); err != nil {
			t.Fatal(err)
		}
		if err := b.Add(p); err != nil {
			t.Fatal(err)
		}
	}
	return b.Tree(o)
}

// render returns a tree as lines.
func render(tree *Tree) string {
	var out strings.Builder
	for i, frame := range tree.Nodes.Frame {
		name := "root"
		switch {
		case frame < -1:
			name = fmt.Sprintf("(%d small)", -1-frame)
		case frame >= 0:
			name = tree.Strings[tree.Frames.Name[frame]] + " " + tree.Kinds.Name[tree.Frames.Kind[frame]]
		}
		fmt.Fprintf(&out, "%s%s %d/%d\n", strings.Repeat(" ", int(tree.Nodes.Depth[i])), name, tree.Nodes.Self[i],
			tree.Nodes.Total[i])
	}
	return out.String()
}

func TestTree(t *testing.T) {
	m := newMaker()
	m.sample(30, ":python3", "/usr/bin/python3:_PyEval_EvalFrameDefault", "[python 3.11]:<module>", "[python 3.11]:work")
	m.sample(10, ":python3", "/usr/bin/python3:_PyEval_EvalFrameDefault", "[python 3.11]:<module>",
		"/usr/lib/libc.so.6:outer|inner", "[kernel.kallsyms]:do_syscall_64")
	m.sample(20, ":java", "[jit]:Svc.run", "/usr/lib/libjvm.so:libjvm.so+0x12f0")
	m.sample(2000, ":fio", "/usr/bin/fio:main")
	m.sample(0, ":nothing")
	got := render(treeOf(t, Options{Share: 0.01, Enough: 1}, m.Profile))
	want := `root 0/206
 fio other 0/200
  main native 200/200
 python3 other 0/4
  _PyEval_EvalFrameDefault native 0/4
   <module> runtime 0/4
    work runtime 3/3
    (3 small) 1/1
 (3 small) 2/2
`
	if got != want {
		t.Errorf("got:\n%swant:\n%s", got, want)
	}
	got = render(treeOf(t, Options{}, m.Profile))
	want = `root 0/206
 fio other 0/200
  main native 200/200
 python3 other 0/4
  _PyEval_EvalFrameDefault native 0/4
   <module> runtime 0/4
    work runtime 3/3
    outer native 0/1
     inner inlined 0/1
      do_syscall_64 kernel 1/1
 java other 0/2
  Svc.run jit 0/2
   libjvm.so+0x12f0 unnamed 2/2
`
	if got != want {
		t.Errorf("got:\n%swant:\n%s", got, want)
	}
}

// A kind's total is the value of the samples with such frames, each counted once.
func TestKindTotals(t *testing.T) {
	m := newMaker()
	m.sample(30, "/a:main", "[python 3.11]:f", "/a:call", "[python 3.11]:f")
	m.sample(20, "/a:main", "[kernel.kallsyms]:read")
	m.sample(50, "/a:main")
	k := treeOf(t, Options{}, m.Profile).Kinds
	got := map[string][2]int64{}
	for i, name := range k.Name {
		if k.Total[i] > 0 {
			got[name] = [2]int64{k.Self[i], k.Total[i]}
		}
	}
	want := map[string][2]int64{"runtime": {3, 3}, "kernel": {2, 2}, "native": {5, 10}}
	if !maps.Equal(got, want) {
		t.Errorf("self and total are %v, not %v", got, want)
	}
}

// A function has all frames with its name and file, inlined or not. A recursive function counts once in its total.
func TestFunctions(t *testing.T) {
	m := newMaker()
	m.sample(5, "/bin/a:main", "/bin/a:visit|visit", "/bin/a:visit")
	m.sample(3, "/bin/a:main", "/bin/b:visit")
	tree := treeOf(t, Options{}, m.Profile)
	got := map[string][]int64{}
	for i, name := range tree.Frames.Name {
		file := tree.Strings[tree.Mappings.File[tree.Frames.Mapping[i]]]
		of := tree.Frames.Of[i]
		got[file+":"+tree.Strings[name]] = []int64{tree.Functions.Self[of], tree.Functions.Total[of]}
	}
	want := map[string][]int64{"/bin/a:main": {0, 8}, "/bin/a:visit": {5, 5}, "/bin/b:visit": {3, 3}}
	if !maps.EqualFunc(got, want, slices.Equal) {
		t.Errorf("got %v, want %v", got, want)
	}
	if n := len(tree.Functions.Self); n != len(want) {
		t.Errorf("%d functions, not %d", n, len(want))
	}
}

// TestKindsWithoutFiles checks that functions without a file are native functions if no function of the profile has a
// file, and only then.
func TestKindsWithoutFiles(t *testing.T) {
	m := newMaker()
	m.sample(1, ":main", ":work|inlined", ":[unknown]")
	if got, want := render(treeOf(t, Options{}, m.Profile)),
		"root 0/1\n main native 0/1\n  work native 0/1\n   inlined inlined 0/1\n    [unknown] unnamed 1/1\n"; got != want {
		t.Errorf("got:\n%swant:\n%s", got, want)
	}
	m = newMaker()
	m.sample(1, ":pid=12", "/bin/a:main")
	want := "root 0/1\n pid=12 other 0/1\n  main native 1/1\n"
	if got := render(treeOf(t, Options{}, m.Profile)); got != want {
		t.Errorf("got:\n%swant:\n%s", got, want)
	}
}

func TestShownNames(t *testing.T) {
	m := newMaker()
	m.sample(1, "/a:_Zf", "/a:_Zg")
	b := NewBuilder(func(name string) string { return strings.TrimPrefix(name, "_Z") })
	if err := b.Add(m.Profile); err != nil {
		t.Fatal(err)
	}
	if got, want := render(b.Tree(Options{})), "root 0/1\n f native 0/1\n  g native 1/1\n"; got != want {
		t.Errorf("got:\n%swant:\n%s", got, want)
	}
}

func TestKinds(t *testing.T) {
	for text, want := range map[string]Kind{
		"[kernel.kallsyms]:vfs_read":        Kernel,
		"[vdso]:__vdso_clock_gettime":       Native,
		"/tmp/perf-12.map:LazyCompile:~f":   JIT,
		"[jit]:Svc.run":                     JIT,
		"[jit]:[unknown]":                   Unnamed,
		"[V8 11.3]:handle":                  Runtime,
		"[java 17]:java.lang.Object.<init>": Runtime,
		"[PHP code]:[PHP code]":             Runtime,
		"/usr/bin/x:[unknown]":              Unnamed,
		"/usr/bin/x:x+0x1f":                 Unnamed,
		"/usr/bin/x:main":                   Native,
		"/usr/bin/x:operator+":              Native,
		":[incomplete: no_row in libx.so]":  Unnamed,
		":pid=12":                           Other,
	} {
		file, function, _ := strings.Cut(text, ":")
		var m *profile.Mapping
		if file != "" {
			m = &profile.Mapping{File: file}
		}
		if got := KindOf(m, function, false); got != want {
			t.Errorf("%s is %s, not %s", text, got, want)
		}
	}
	if got := KindOf(&profile.Mapping{}, "fio", false); got != Other {
		t.Errorf("what is in no file is %s", got)
	}
}

// Locations without functions are named after their addresses as linked.
func TestAddressNames(t *testing.T) {
	m := newMaker()
	m.sample(1, "/usr/bin/fio:x", ":y")
	m.Mapping[0].Start, m.Mapping[0].Limit, m.Mapping[0].Offset = 0x5000, 0x9000, 0x1000
	m.byName["/usr/bin/fio:x"].Address, m.byName["/usr/bin/fio:x"].Line = 0x5123, nil
	m.byName[":y"].Address, m.byName[":y"].Line = 0xabc, nil
	want := "root 0/1\n fio+0x1123 unnamed 0/1\n  0xabc unnamed 1/1\n"
	if got := render(treeOf(t, Options{}, m.Profile)); got != want {
		t.Errorf("got:\n%swant:\n%s", got, want)
	}
}

// random makes a profile of recursive, inlined and equal functions of several files.
func random(stacks, functions, depth int) *profile.Profile {
	r := rand.New(rand.NewPCG(1, 2))
	m := newMaker()
	for range stacks {
		var stack []string
		for range 1 + r.IntN(depth) {
			n := r.IntN(functions)
			file := []string{"/usr/bin/a", "/usr/lib/libb.so", "[kernel.kallsyms]", "[python 3.11]"}[n%4]
			stack = append(stack, fmt.Sprintf("%s:f%d", file, n))
		}
		m.sample(int64(1+r.IntN(50))*10_309_278, stack...)
	}
	return m.Profile
}

// The functions' totals equal the totals in google/pprof.
func TestTotalsAreThoseOfPprof(t *testing.T) {
	p := random(3000, 300, 30)
	path := filepath.Join(t.TempDir(), "profile.pb.gz")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Write(f); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	top, err := exec.Command("go", "tool", "pprof", "-symbolize=none", "-top", "-nodecount=100000", "-nodefraction=0",
		"-unit=ns", path).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, top)
	}
	want := map[string][2]int64{}
	row := regexp.MustCompile(`(?m)^\s*(\d+)(?:ns)?\s+[\d.]+%\s+[\d.]+%\s+(\d+)(?:ns)?\s+[\d.]+%\s+(\S+)`)
	for _, m := range row.FindAllStringSubmatch(string(top), -1) {
		self, _ := strconv.ParseInt(m[1], 10, 64)
		total, _ := strconv.ParseInt(m[2], 10, 64)
		want[m[3]] = [2]int64{self, total}
	}
	tree := treeOf(t, Options{Share: -1, MaxNodes: 1 << 30}, p)
	if len(want) != 300 || len(tree.Frames.Name) != len(want) {
		t.Fatalf("%d functions in pprof's list, %d in the tree", len(want), len(tree.Frames.Name))
	}
	for i, name := range tree.Frames.Name {
		got := [2]int64{tree.Frames.Self[i] * tree.Scale, tree.Frames.Total[i] * tree.Scale}
		if name := tree.Strings[name]; got != want[name] {
			t.Errorf("%s has self and total %v, pprof says %v", name, got, want[name])
		}
	}
}

// TestFramesOfMostSelf checks that the functions with the largest self are in the tree even if no node shows them;
// among equal functions the first by name.
func TestFramesOfMostSelf(t *testing.T) {
	m := newMaker()
	type function struct {
		name string
		self int64
	}
	var all []function
	for i := range 2 * maxTopFrames {
		f := function{fmt.Sprintf("f%03d", i*37%(2*maxTopFrames)), int64(1 + i*7%40)}
		m.sample(f.self, "/bin/a:"+f.name)
		all = append(all, f)
	}
	slices.SortFunc(all, func(x, y function) int {
		return cmp.Or(cmp.Compare(y.self, x.self), cmp.Compare(x.name, y.name))
	})
	tree := treeOf(t, Options{Share: 0.5, Enough: 1, MaxNodes: 1}, m.Profile)
	var got []function
	for i, name := range tree.Frames.Name {
		got = append(got, function{tree.Strings[name], tree.Frames.Self[i] * tree.Scale})
	}
	if want := all[:maxTopFrames]; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// A sum of profiles equals pprof's merged profile.
func TestSum(t *testing.T) {
	a, b := random(300, 40, 12), random(200, 60, 9)
	merged, err := profile.Merge([]*profile.Profile{a, b})
	if err != nil {
		t.Fatal(err)
	}
	got, want := treeOf(t, Options{}, a, b), treeOf(t, Options{}, merged)
	if render(got) != render(want) {
		t.Errorf("got:\n%swant:\n%s", render(got), render(want))
	}
	other := newMaker()
	other.SampleType[0] = &profile.ValueType{Type: "alloc_space", Unit: "bytes"}
	builder := NewBuilder(nil)
	if err := builder.Add(a); err != nil {
		t.Fatal(err)
	}
	if builder.Add(other.Profile) == nil {
		t.Error("bytes are added to nanoseconds")
	}
}

// A node's total is the sum of its self and its children's totals, however much is folded, and there are no more nodes
// than the limit.
func TestBounds(t *testing.T) {
	p := random(20_000, 2000, 40)
	for _, o := range []Options{{}, {Enough: 1}, {Share: 0.01, Enough: 200}, {Share: -1, MaxNodes: 500}, {Share: -1}} {
		tree := treeOf(t, o, p)
		limit := o.MaxNodes
		if limit == 0 {
			limit = DefaultMaxNodes
		}
		n := &tree.Nodes
		if len(n.Frame)-1 > limit {
			t.Errorf("%+v: %d nodes", o, len(n.Frame)-1)
		}
		checkSums(t, tree)
		if tree.Omitted.Nodes == 0 || tree.Omitted.Self == 0 {
			t.Errorf("%+v: omitted is %+v", o, tree.Omitted)
		}
		t.Logf("%+v: %d nodes, %d functions, %d bytes, %d of gzip", o, len(n.Frame)-1, len(tree.Frames.Name),
			len(encode(t, tree)), len(compress(t, encode(t, tree))))
	}
}

// Among many equally small nodes, the nodes near the root are shown.
func TestEqualNodes(t *testing.T) {
	m := newMaker()
	for i := range 100 {
		var stack []string
		for depth := range 20 {
			stack = append(stack, fmt.Sprintf("/a:f%d_%d", i, depth))
		}
		m.sample(1, stack...)
	}
	tree := treeOf(t, Options{Share: 0.02, Enough: 450}, m.Profile)
	checkSums(t, tree)
	if n := len(tree.Nodes.Frame) - 1; n != 400 || slices.Max(tree.Nodes.Depth) != 4 {
		t.Errorf("%d nodes as deep as %d, not 100 stacks of 3 frames and one for the others", n,
			slices.Max(tree.Nodes.Depth))
	}
}

func checkSums(t *testing.T, tree *Tree) {
	t.Helper()
	n := &tree.Nodes
	sums := append([]int64{}, n.Self...)
	way := []int{}
	for i := range n.Frame {
		way = append(way[:n.Depth[i]], i)
		if n.Depth[i] > 0 {
			sums[way[n.Depth[i]-1]] += n.Total[i]
		}
	}
	for i := range sums {
		if sums[i] != n.Total[i] {
			t.Fatalf("node %d has %d, its children and itself %d", i, n.Total[i], sums[i])
		}
	}
	if n.Total[0] != tree.Total {
		t.Errorf("the root has %d of %d", n.Total[0], tree.Total)
	}
}

func TestNothing(t *testing.T) {
	text := string(encode(t, NewBuilder(nil).Tree(Options{})))
	if strings.Contains(text, "null") || !strings.Contains(text, `"nodes":{"frame":[-1]`) {
		t.Error(text)
	}
}

func encode(t testing.TB, tree *Tree) []byte {
	t.Helper()
	text, err := json.Marshal(tree)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func compress(t testing.TB, text []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	if _, err := w.Write(text); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func BenchmarkTree(b *testing.B) {
	p := random(20_000, 2000, 40)
	b.ReportAllocs()
	for b.Loop() {
		treeOf(b, Options{}, p)
	}
}
