package river

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
)

// combineMaps joins left with right. Each pair of objects with equal values for all keys of on
// becomes one object, in which the values of right win. With keep, the result also contains
// unchanged the objects of left that match no object of right.
func combineMaps(left, right []map[string]interface{}, on []string, keep ...bool) ([]map[string]interface{}, error) {
	switch {
	case len(on) == 0:
		return nil, errors.New("merge conditions must not be empty")
	case len(keep) > 1:
		return nil, fmt.Errorf("expected 3 or 4 arguments, got %d", 3+len(keep))
	}
	combined := []map[string]interface{}{}
	for _, l := range left {
		matched := false
		for _, r := range right {
			if !agree(l, r, on) {
				continue
			}
			matched = true
			both := maps.Clone(l)
			maps.Copy(both, r)
			combined = append(combined, both)
		}
		if !matched && len(keep) == 1 && keep[0] {
			combined = append(combined, l)
		}
	}
	return combined, nil
}

func agree(left, right map[string]interface{}, keys []string) bool {
	for _, key := range keys {
		l, inLeft := left[key]
		r, inRight := right[key]
		if !inLeft || !inRight || !reflect.DeepEqual(l, r) {
			return false
		}
	}
	return true
}

// groupBy returns one object for each value of key in objects, in the order of first appearance. It
// has that value under key, and the objects with that value under items. Objects without key are
// dropped if dropMissing is set, and otherwise count as having "".
func groupBy(objects []map[string]interface{}, key string, dropMissing bool) ([]map[string]interface{}, error) {
	groups := []map[string]interface{}{}
	position := map[string]int{}
	for i, object := range objects {
		value, found := object[key]
		if !found {
			if dropMissing {
				continue
			}
			value = ""
		}
		text, ok := value.(string)
		if !ok {
			return nil, fmt.Errorf("field %q of element %d should be string, got %T", key, i, value)
		}
		at, known := position[text]
		if !known {
			at = len(groups)
			position[text] = at
			groups = append(groups, map[string]interface{}{key: text, "items": []map[string]interface{}{}})
		}
		groups[at]["items"] = append(groups[at]["items"].([]map[string]interface{}), object)
	}
	return groups, nil
}
