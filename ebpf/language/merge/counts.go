package merge

import (
	"cmp"
	"slices"
	"strings"
	"sync"

	"github.com/headwater/headwater/ebpf/kernel"
	"github.com/headwater/headwater/ebpf/unwind"
)

// LanguageStats counts the frames of one language runtime.
type LanguageStats struct {
	Name     string // with the version: "python 3.11"
	Named    uint64
	NotRead  uint64 // functions could not be read from the process
	NotNamed uint64 // functions of this language, or version, cannot be named
	Hint     string // for NotNamed: which version it is, and a remedy
}

// Unnamed returns the frames without a name.
func (l LanguageStats) Unnamed() uint64 { return l.NotRead + l.NotNamed }

// maxLanguages bounds the names, which contain the version that a process claims.
const maxLanguages = 100

// counts counts frames by language. Safe for concurrent use.
type counts struct {
	mu    sync.Mutex
	count map[string]*LanguageStats
}

// addStats counts frames. path stands for the file of the functions: "[python 3.11]", "[PHP code]".
func (l *counts) addStats(path string, n LanguageStats) {
	if n.Named == 0 && n.Unnamed() == 0 {
		return
	}
	name := strings.TrimSuffix(strings.Trim(path, "[]"), " code")
	l.mu.Lock()
	defer l.mu.Unlock()
	of := l.count[name]
	if of == nil {
		if len(l.count) >= maxLanguages {
			return
		}
		if l.count == nil {
			l.count = map[string]*LanguageStats{}
		}
		of = &LanguageStats{Name: name}
		l.count[name] = of
	}
	of.Named, of.NotRead, of.NotNamed = of.Named+n.Named, of.NotRead+n.NotRead, of.NotNamed+n.NotNamed
	of.Hint = cmp.Or(n.Hint, of.Hint)
}

// Stats returns the counts of all languages, most frames first. Safe for concurrent use.
func (x *Merger) Stats() (out []LanguageStats) {
	l := &x.counts
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, of := range l.count {
		out = append(out, *of)
	}
	slices.SortFunc(out, func(a, b LanguageStats) int {
		return cmp.Or(cmp.Compare(b.Named+b.Unnamed(), a.Named+a.Unnamed()), cmp.Compare(a.Name, b.Name))
	})
	return out
}

// CountJITCode counts the frames of a sample in code that a language runtime has generated: exe stands for the code,
// and path for the file of its functions.
func (x *Merger) CountJITCode(exe unwind.ExeID, path string, s *kernel.Sample) {
	var n LanguageStats
	for i := range s.User {
		switch f := &s.User[i]; {
		case f.Exe != exe:
		case f.Code == unwind.UnknownCode:
			n.NotRead++
		default:
			n.Named++
		}
	}
	x.counts.addStats(path, n)
}
