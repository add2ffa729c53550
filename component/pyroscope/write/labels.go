package write

import (
	"errors"
	"fmt"
	"slices"
	"sort"
	"strings"

	typesv1 "github.com/grafana/pyroscope/api/gen/proto/go/types/v1"
	"github.com/prometheus/prometheus/model/labels"

	"github.com/headwater/headwater/component/pyroscope"
)

const labelName = "__name__"

// pushLabels returns the labels of a series as they are pushed, sorted by name. It leaves out internal labels, and
// external overwrites the profile's labels.
func pushLabels(of labels.Labels, external map[string]string) ([]*typesv1.LabelPair, error) {
	return mergeLabels(of, external, isSent)
}

// mergeLabels returns the wanted labels of a series, overwritten by external, sorted by name. A label with an empty
// value counts as missing.
func mergeLabels(of labels.Labels, external map[string]string,
	wanted func(name string) bool) ([]*typesv1.LabelPair, error) {
	var pairs []*typesv1.LabelPair
	add := func(name, value string) {
		if value != "" {
			pairs = append(pairs, &typesv1.LabelPair{Name: name, Value: value})
		}
	}
	of.Range(func(l labels.Label) {
		if _, overridden := external[l.Name]; !overridden && wanted(l.Name) {
			add(l.Name, l.Value)
		}
	})
	for name, value := range external {
		add(name, value)
	}
	sort.Slice(pairs, func(i, j int) bool { return pairs[i].Name < pairs[j].Name })
	if err := checkLabels(pairs); err != nil {
		return nil, fmt.Errorf("invalid labels in profile: %w", err)
	}
	return pairs, nil
}

// isSent reports whether a label is sent to the server.
func isSent(name string) bool {
	return !strings.HasPrefix(name, pyroscope.ReservedPrefix) || name == labelName || name == pyroscope.LabelNameDelta
}

// checkLabels returns an error if the server would refuse the labels, which are sorted by name.
func checkLabels(pairs []*typesv1.LabelPair) error {
	if len(pairs) == 0 {
		return errors.New("no labels")
	}
	for i, pair := range pairs {
		if i > 0 && pair.Name == pairs[i-1].Name {
			return fmt.Errorf("duplicate label name %q", pair.Name)
		}
		if err := pyroscope.CheckLabel(pair.Name, pair.Value); err != nil {
			return err
		}
	}
	if !slices.ContainsFunc(pairs, func(p *typesv1.LabelPair) bool { return p.Name == labelName }) {
		return errors.New("no __name__, which names the type of the profile")
	}
	return nil
}
