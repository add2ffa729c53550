package conformance

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/grafana/river/diag"
)

// A Host is a running flow runtime.
type Host interface {
	// Load loads a configuration as a file with that name.
	Load(name, text string) error

	// Components describes the loaded components, including modules'.
	Components() ([]Component, error)
}

// Component is a component as a host describes it.
type Component struct {
	ID        string // including its module's
	Health    string
	Arguments json.RawMessage // in the form of the web API
	Exports   json.RawMessage
}

// patience bounds the wait for the expected answer of a host.
const patience = 30 * time.Second

// Answer runs a case in a fresh host and returns the answer. Exports arrive asynchronously, so it waits for the
// expected answer; if want is "", it waits until the answer has been stable for a while.
func Answer(t testing.TB, host Host, c Case, want string) string {
	t.Helper()
	folder := t.TempDir()
	local := strings.NewReplacer("$DIR", folder)
	wanted := strings.SplitAfter(want, "--- reload\n")
	var answer string
	for i, step := range c.Steps {
		for name, text := range step.Files {
			if err := os.WriteFile(filepath.Join(folder, name), []byte(local.Replace(text)), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		result := outcome(host.Load("c.river", local.Replace(step.Text)))
		expected := ""
		if want != "" && i < len(wanted) {
			expected = strings.TrimSuffix(wanted[i], "--- reload\n")
		}
		state := waitForState(t, host, expected == "", func(state string) bool {
			return strings.ReplaceAll(result+state, folder, "$DIR") == expected
		})
		if i > 0 {
			answer += "--- reload\n"
		}
		answer += strings.ReplaceAll(result+state, folder, "$DIR")
	}
	return answer
}

// waitForState returns the host's state as soon as good accepts it, or when patience is over. With unknown set, a state
// that is stable for a while is also good.
func waitForState(t testing.TB, host Host, unknown bool, good func(string) bool) string {
	t.Helper()
	var last string
	changed, deadline := time.Now(), time.Now().Add(patience)
	for {
		state := describe(t, host)
		if good(state) || time.Now().After(deadline) {
			return state
		}
		if state != last {
			last, changed = state, time.Now()
		}
		if unknown && time.Since(changed) > 3*time.Second {
			return state
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// outcome returns the result of a load: "accepted", or the diagnostics in the order of the text, as
// FILE:LINE:COLUMN-LINE:COLUMN: MESSAGE. Diagnostics without a place are in alphabetical order: the order in which the
// Agent finds cycles is random.
func outcome(err error) string {
	if err == nil {
		return "accepted\n"
	}
	var (
		many diag.Diagnostics
		one  diag.Diagnostic
	)
	switch {
	case errors.As(err, &many):
	case errors.As(err, &one):
		many = diag.Diagnostics{one}
	default:
		return "refused: " + err.Error() + "\n"
	}
	for i := range many {
		many[i].Message = inOrder(many[i].Message)
	}
	sort.SliceStable(many, func(i, j int) bool {
		a, b := many[i], many[j]
		if !a.StartPos.Valid() && !b.StartPos.Valid() {
			return a.Message < b.Message
		}
		return a.StartPos.Offset < b.StartPos.Offset
	})
	lines := make([]string, len(many))
	for i, d := range many {
		place := "-"
		if d.StartPos.Valid() {
			place = fmt.Sprintf("%s:%d:%d-%d:%d", d.StartPos.Filename, d.StartPos.Line, d.StartPos.Column, d.EndPos.Line,
				d.EndPos.Column)
		}
		lines[i] = fmt.Sprintf("refused: %s: %s\n", place, d.Message)
	}
	return strings.Join(lines, "")
}

// inOrder sorts the members of a cycle alphabetically: the order in which the Agent names them is random.
func inOrder(message string) string {
	members, ok := strings.CutPrefix(message, "cycle: ")
	if !ok {
		return message
	}
	ids := strings.Split(members, ", ")
	sort.Strings(ids)
	return "cycle: " + strings.Join(ids, ", ")
}

// describe returns the health, arguments and exports of every component, without empty arguments and exports.
func describe(t testing.TB, host Host) string {
	t.Helper()
	components, err := host.Components()
	if err != nil {
		t.Fatal(err)
	}
	sort.Slice(components, func(i, j int) bool { return components[i].ID < components[j].ID })
	var text strings.Builder
	for _, c := range components {
		fmt.Fprintf(&text, "%s %s\n", c.ID, c.Health)
		for _, body := range []struct {
			mark string
			json json.RawMessage
		}{{"<", c.Arguments}, {">", c.Exports}} {
			for _, line := range bodyLines(t, "", body.json) {
				fmt.Fprintf(&text, "  %s %s\n", body.mark, line)
			}
		}
	}
	return text.String()
}

// statement is an attribute or a block in River's JSON.
type statement struct {
	Name  string          `json:"name"`
	Type  string          `json:"type"` // attr or block
	Label string          `json:"label"`
	Value json.RawMessage `json:"value"` // of an attr
	Body  json.RawMessage `json:"body"`  // of a block
}

func bodyLines(t testing.TB, prefix string, body json.RawMessage) []string {
	t.Helper()
	var statements []statement
	if len(body) == 0 {
		return nil
	}
	if err := json.Unmarshal(body, &statements); err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	var lines []string
	for _, s := range statements {
		name := prefix + s.Name
		if s.Type == "block" {
			if s.Label != "" {
				name += "[" + s.Label + "]"
			}
			lines = append(lines, name+" {}")
			lines = append(lines, bodyLines(t, name+".", s.Body)...)
			continue
		}
		lines = append(lines, name+" = "+valueText(t, s.Value))
	}
	sort.Strings(lines)
	return lines
}

// value is a value in River's JSON.
type value struct {
	Type  string          `json:"type"`
	Value json.RawMessage `json:"value"`
}

// valueText formats a value like River.
func valueText(t testing.TB, encoded json.RawMessage) string {
	t.Helper()
	var v value
	var text string
	err := json.Unmarshal(encoded, &v)
	switch {
	case err != nil:
	case v.Type == "null":
		text = "null"
	case v.Type == "array":
		var elements []json.RawMessage
		err = json.Unmarshal(v.Value, &elements)
		parts := make([]string, len(elements))
		for i, element := range elements {
			parts[i] = valueText(t, element)
		}
		text = "[" + strings.Join(parts, ", ") + "]"
	case v.Type == "object":
		var fields []struct {
			Key   string          `json:"key"`
			Value json.RawMessage `json:"value"`
		}
		err = json.Unmarshal(v.Value, &fields)
		parts := make([]string, len(fields))
		for i, field := range fields {
			parts[i] = strconv.Quote(field.Key) + " = " + valueText(t, field.Value)
		}
		sort.Strings(parts)
		text = "{" + strings.Join(parts, ", ") + "}"
	case v.Type == "capsule", v.Type == "function":
		err = json.Unmarshal(v.Value, &text)
	default:
		text = string(v.Value)
	}
	if err != nil {
		t.Fatalf("%s: %v", encoded, err)
	}
	return text
}
