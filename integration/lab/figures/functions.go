package main

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"text/template"
)

// functions are the template functions apart from `record`. JSON numbers are float64.
func functions() template.FuncMap {
	return template.FuncMap{
		"three":    three,
		"amount":   func(v float64, unit string) string { return strings.TrimSpace(three(v) + " " + unit) },
		"fixed":    func(digits int, v float64) string { return strconv.FormatFloat(v, 'f', digits, 64) },
		"percent":  func(digits int, share float64) string { return strconv.FormatFloat(100*share, 'f', digits, 64) + " %" },
		"count":    count,
		"div":      func(a, b float64) float64 { return a / b },
		"mul":      func(a, b float64) float64 { return a * b },
		"sub":      func(a, b float64) float64 { return a - b },
		"find":     findObject,
		"sorted":   sorted,
		"among":    among,
		"spread":   spread,
		"interval": printInterval,
		"has":      func(value map[string]any, key string) bool { return value[key] != nil },
		"median":   median,
		"most":     largestOf,
	}
}

// three formats a number with three digits, or with all digits before the decimal point if there are more.
func three(v float64) string {
	if v == 0 {
		return "0"
	}
	before := int(math.Floor(math.Log10(math.Abs(v)))) + 1
	return strconv.FormatFloat(v, 'f', max(0, 3-max(before, 1)), 64)
}

// count formats a whole number in groups of three digits.
func count(v float64) string {
	text := strconv.FormatFloat(v, 'f', 0, 64)
	for i := len(text) - 3; i > 0 && text[i-1] != '-'; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// findObject returns the object in a list whose field has a value.
func findObject(list []any, field, value string) (map[string]any, error) {
	for _, one := range list {
		if object, ok := one.(map[string]any); ok && object[field] == value {
			return object, nil
		}
	}
	return nil, fmt.Errorf("no %s is %q", field, value)
}

// sorted returns the objects of a map ordered by name, with numbers in names ordered by value. Each object gets its
// name as a field.
func sorted(objects map[string]any) (list []map[string]any, err error) {
	padded := func(name string) string {
		return digits.ReplaceAllStringFunc(name, func(number string) string { return fmt.Sprintf("%20s", number) })
	}
	names := slices.SortedFunc(maps.Keys(objects), func(a, b string) int { return strings.Compare(padded(a), padded(b)) })
	for _, name := range names {
		object, ok := objects[name].(map[string]any)
		if !ok {
			return nil, fmt.Errorf("sorted: %s is no object", name)
		}
		named := maps.Clone(object)
		named["name"] = name
		list = append(list, named)
	}
	return list, nil
}

var digits = regexp.MustCompile(`[0-9]+`)

// among returns the objects of a list whose field starts with one of the prefixes.
func among(list []any, field string, prefixes ...string) (found []any, err error) {
	for _, prefix := range prefixes {
		before := len(found)
		for _, one := range list {
			object, _ := one.(map[string]any)
			if text, ok := object[field].(string); ok && strings.HasPrefix(text, prefix) {
				found = append(found, one)
			}
		}
		if len(found) == before {
			return nil, fmt.Errorf("no %s begins with %q", field, prefix)
		}
	}
	return found, nil
}

// spread formats the least and the greatest ratio of two lists, in brackets, if there is more than one value.
func spread(values []any) string {
	if len(values) < 2 {
		return ""
	}
	ours, _ := values[0].([]any)
	theirs, _ := values[1].([]any)
	var ratios []float64
	for i := range min(len(ours), len(theirs)) {
		a, _ := ours[i].(float64)
		if b, _ := theirs[i].(float64); b != 0 {
			ratios = append(ratios, a/b)
		}
	}
	if len(ratios) < 2 {
		return ""
	}
	return fmt.Sprintf(" (%s to %s)", three(slices.Min(ratios)), three(slices.Max(ratios)))
}

// printInterval formats an interval from the bench.
func printInterval(interval map[string]any) (string, error) {
	if interval == nil {
		return "too few rounds", nil
	}
	least, ok := interval["least"].(float64)
	most, also := interval["most"].(float64)
	if !ok || !also {
		return "", fmt.Errorf("%v is no interval", interval)
	}
	return fmt.Sprintf("%s to %s", three(least), three(most)), nil
}

// sortedNumbers returns the numbers of a JSON list, sorted. The list must not be empty.
func sortedNumbers(list []any) ([]float64, error) {
	var values []float64
	for _, one := range list {
		v, ok := one.(float64)
		if !ok {
			return nil, fmt.Errorf("%v is no number", one)
		}
		values = append(values, v)
	}
	if len(values) == 0 {
		return nil, errors.New("a list of no numbers")
	}
	slices.Sort(values)
	return values, nil
}

// largestOf returns the largest of numbers.
func largestOf(list []any) (float64, error) {
	values, err := sortedNumbers(list)
	if err != nil {
		return 0, err
	}
	return values[len(values)-1], nil
}

// median returns the median of numbers.
func median(list []any) (float64, error) {
	values, err := sortedNumbers(list)
	if err != nil {
		return 0, err
	}
	return (values[(len(values)-1)/2] + values[len(values)/2]) / 2, nil
}

// parseBenchmarks parses the output of `go test -bench`: the values of each run, by benchmark name and unit.
func parseBenchmarks(text string) map[string]map[string][]float64 {
	found := map[string]map[string][]float64{}
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		if len(words) < 4 || !strings.HasPrefix(words[0], "Benchmark") {
			continue
		}
		name := strings.TrimPrefix(words[0], "Benchmark")
		if i := strings.LastIndex(name, "-"); i > 0 { // remove the number of CPUs
			if _, err := strconv.Atoi(name[i+1:]); err == nil {
				name = name[:i]
			}
		}
		for i := 2; i+1 < len(words); i += 2 {
			v, err := strconv.ParseFloat(words[i], 64)
			if err != nil {
				break
			}
			if found[name] == nil {
				found[name] = map[string][]float64{}
			}
			found[name][words[i+1]] = append(found[name][words[i+1]], v)
		}
	}
	return found
}
