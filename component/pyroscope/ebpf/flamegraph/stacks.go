package flamegraph

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"

	"github.com/google/pprof/profile"
)

// pprof takes the part before a dot or "::" in a function's name for a package. It colours a flame graph by package,
// and leaves the package out if space is short. Names in C and in the kernel have no package: they would all have the
// same colour, and foo.constprop.0 would be shown as "0". Such functions get a colour by their file and keep their
// name.

// fileColors returns the colour of each function of p by name: a number that pprof's script converts to a hue.
func fileColors(p *profile.Profile) map[string]int {
	colors := make(map[string]int, len(p.Function))
	for _, l := range p.Location {
		if l.Mapping == nil {
			continue
		}
		color := hashColor(filepath.Base(l.Mapping.File))
		for _, line := range l.Line {
			if line.Function != nil {
				colors[line.Function.Name] = color
			}
		}
	}
	return colors
}

// hashColor picks a colour like pprof does for a package.
func hashColor(name string) int {
	sum := sha256.Sum256([]byte(name))
	return int(binary.LittleEndian.Uint32(sum[:]) % (1 << 20))
}

// suffix matches suffixes that compilers and linkers append to a name.
var suffix = regexp.MustCompile(`^(\d+|(constprop|isra|part|cold|lto_priv|llvm|localalias|abi0)(\..*)?)$`)

// unnamed matches placeholder names of functions without a name: binary+0xoffset, and remarks in brackets. A dot in
// such a name belongs to a file name.
var unnamed = regexp.MustCompile(`^\[|\+0x[0-9a-f]+$`)

// adaptStacks changes colours and short names in pprof's flame graph page. It returns a page with an unexpected format
// unchanged.
func adaptStacks(page []byte, colors map[string]int) []byte {
	const call = "stackViewer({"
	at := bytes.LastIndex(page, []byte(call))
	if at < 0 {
		return page
	}
	at += len(call) - 1
	decoder := json.NewDecoder(bytes.NewReader(page[at:]))
	var stacks map[string]json.RawMessage
	var sources []map[string]json.RawMessage
	if decoder.Decode(&stacks) != nil || json.Unmarshal(stacks["Sources"], &sources) != nil {
		return page
	}
	for _, source := range sources {
		adaptSource(source, colors)
	}
	var err error
	if stacks["Sources"], err = json.Marshal(sources); err != nil {
		return page
	}
	changed, err := json.Marshal(stacks)
	if err != nil {
		return page
	}
	return bytes.Join([][]byte{page[:at], changed, page[at+int(decoder.InputOffset()):]}, nil)
}

// adaptSource changes one function of the page's data.
func adaptSource(source map[string]json.RawMessage, colors map[string]int) {
	var name string
	var short []string
	if json.Unmarshal(source["FullName"], &name) != nil || json.Unmarshal(source["Display"], &short) != nil {
		return
	}
	kept := slices.DeleteFunc(slices.Clone(short), suffix.MatchString)
	if unnamed.MatchString(name) {
		kept = []string{name}
	}
	noPackage := len(kept) < len(short) && len(kept) > 0
	if noPackage {
		if text, err := json.Marshal(kept); err == nil {
			source["Display"] = text
		}
	}
	if noPackage || string(source["Color"]) == strconv.Itoa(hashColor("")) {
		if color, known := colors[name]; known {
			source["Color"] = json.RawMessage(strconv.Itoa(color))
		}
	}
}
