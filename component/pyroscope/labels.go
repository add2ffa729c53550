package pyroscope

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/headwater/headwater/component"
)

// ReservedPrefix is the prefix of label names that are internal to the configuration: such labels are not sent.
const ReservedPrefix = "__"

// CheckLabel returns an error if receivers refuse the label.
func CheckLabel(name, value string) error {
	if name == "" {
		return errors.New("empty label name")
	}
	for i := range len(name) {
		c := name[i]
		if !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '_' || c == '.') {
			return fmt.Errorf("invalid label name %q: only letters, digits, _ and . are allowed", name)
		}
	}
	if !utf8.ValidString(value) {
		return fmt.Errorf("value of label %q is not valid UTF-8: %q", name, value)
	}
	return nil
}

// CheckTargets returns a *component.AttributeError about attribute if a label of one of its targets makes receivers
// refuse the target's profiles. Labels without a value are not sent.
func CheckTargets[T ~map[string]string](attribute string, targets []T) error {
	for i, t := range targets {
		for _, name := range slices.Sorted(maps.Keys(t)) {
			if strings.HasPrefix(name, ReservedPrefix) || t[name] == "" {
				continue
			}
			if err := CheckLabel(name, t[name]); err != nil && len(targets) > 1 {
				return component.Refuse(attribute, "cannot be used: target %d of %d: %s", i+1, len(targets), err)
			} else if err != nil {
				return component.Refuse(attribute, "cannot be used: %s", err)
			}
		}
	}
	return nil
}
