package server

import (
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/pprof/profile"

	"github.com/headwater/headwater/flame/tree"
)

// answer is the answer of a path below api/ for a selection.
type answer struct {
	about flameAbout
	data  []byte // JSON, gzip-compressed
}

// size implements sized.
func (a *answer) size() int64 { return int64(len(a.data)) + 512 }

// flameAbout describes the profiles of a flame graph.
type flameAbout struct {
	Target  string    `json:"target"`
	Process string    `json:"process"`
	From    time.Time `json:"from"`
	To      time.Time `json:"to"`
	Samples uint64    `json:"samples"`  // 0: not known
	Used    int       `json:"profiles"` // profiles used: the newest ones
	Of      int       `json:"of"`       // profiles of the selection
	Labels  []string  `json:"labels"`   // labels of the samples, sorted
}

// newFlameAbout describes profiles whose samples have the sum total.
func newFlameAbout(used []*kept, s selection, total int64) flameAbout {
	return flameAbout{
		Target: targetName(used, s.target), Process: processName(s), Used: len(used), Of: len(used),
		From: time.UnixMilli(used[0].start), To: time.UnixMilli(used[len(used)-1].end),
		Samples: samplesOf(used, s, total),
	}
}

// samplesOf returns the number of selected samples in the profiles, whose selected values have the sum total. It
// returns 0 if the number is unknown: the selection takes only a part of each process's samples, and each sample has
// its own value.
func samplesOf(used []*kept, s selection, total int64) (sum uint64) {
	if period := used[0].Period; s.perSample() && period > 0 && s.isPeriodic() {
		return uint64(max(0, total) / period)
	}
	if s.perSample() && !s.isPeriodic() {
		return 0
	}
	for _, k := range used {
		samples, _, _ := k.countsOf(s)
		sum += samples
	}
	return sum
}

// pprofTotal returns the sum of the values of a profile.
func pprofTotal(p *profile.Profile) (sum int64) {
	for _, s := range p.Sample {
		sum += s.Value[len(s.Value)-1]
	}
	return sum
}

// readProfiles adds the selected parts of profiles, newest first, as long as more accepts the next profile. It
// describes the profiles it has read.
func (p *Page) readProfiles(entries []*kept, s selection, more func(*kept) bool,
	add func(*tree.Folded, tree.Choice) (tree.Added, error)) (about flameAbout, total int64, err error) {
	used, labels, choice := 0, labelSet{}, s.choice()
	for ; used < len(entries); used++ {
		k := entries[len(entries)-1-used]
		if !more(k) {
			break
		}
		var one tree.Added
		f, err := p.foldProfile(k)
		if err == nil {
			one, err = add(f, choice)
		}
		if err != nil {
			return about, 0, fmt.Errorf("adding a profile of %s: %w", k.target.name, err)
		}
		total += one.Total
		labels.addLabelsOf(one.Labels)
	}
	if total == 0 {
		return about, 0, errNoSamples
	}
	about = newFlameAbout(entries[len(entries)-used:], s, total)
	about.Of, about.Labels = len(entries), slices.AppendSeq([]string{}, maps.Keys(labels))
	slices.Sort(about.Labels)
	return about, total, nil
}

// anyOf accepts all profiles.
func anyOf(*kept) bool { return true }

// withinBytes accepts profiles until maxMergedBytes have been reached.
func withinBytes() func(*kept) bool {
	bytes := 0
	return func(k *kept) bool {
		before := bytes
		bytes += k.dataSize()
		return before < maxMergedBytes
	}
}

// serveAnswer answers with the result of build for the profiles that the request selects. The cache key of the answer
// consists of all parameters that it depends on: the selection's, and the parameters in names.
func (p *Page) serveAnswer(w http.ResponseWriter, r *http.Request, build builder, names ...string) {
	s, err := p.treeSelection(r.URL.Query())
	if err != nil {
		failJSON(w, http.StatusBadRequest, err.Error())
		return
	}
	made, err := p.answers.getView(r.Context(), answerKey(r, s, names), func() (*answer, error) {
		return withPicked(p, s, func(picked []*kept) (*answer, error) { return build(picked, s) })
	})
	if err != nil {
		status, message := explainFailure(err)
		failJSON(w, status, message)
		return
	}
	sendJSON(w, r, made.data)
}

// builder makes an answer from the profiles of a selection.
type builder func(entries []*kept, s selection) (*answer, error)

// answerKey returns the cache key of an answer.
func answerKey(r *http.Request, s selection, names []string) string {
	v := s.values()
	for _, name := range names {
		if value := r.URL.Query().Get(name); value != "" {
			v.Set(name, value)
		}
	}
	return strings.TrimPrefix(r.URL.Path, "/") + "?" + v.Encode()
}

// intParameter reads a number from 1 to most; it returns 0 if the parameter is absent.
func intParameter(v url.Values, name string, most int) (int, error) {
	text := v.Get(name)
	if text == "" {
		return 0, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > most {
		return 0, fmt.Errorf("%s %.40q is no number from 1 to %d", name, text, most)
	}
	return n, nil
}
