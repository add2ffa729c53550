package v8

import (
	"bytes"
	"fmt"
	"regexp"

	"github.com/headwater/headwater/ebpf/language"
	"github.com/headwater/headwater/ebpf/object/elffile"
)

// nameless is a file that contains V8 without its symbols, such as deno and Electron. The layout of V8 in their
// processes is unknown, so functions have no names. It implements language.Library.
type nameless struct {
	found        chan struct{} // closed when the version is known
	major, minor string        // "" if the file does not contain V8 after all
}

// nodeAPI is an export of programs that run JavaScript and load node's extensions, with V8 or another engine.
const nodeAPI = "napi_create_function"

// detectNameless returns the V8 of a file without V8's symbols, or nil if there is none. It reads the file in the
// background.
func detectNameless(file *elffile.File) language.Library {
	if _, ok, err := file.DynamicSymbol(nodeAPI); !ok || err != nil {
		return nil
	}
	again, err := file.Reopen()
	if err != nil {
		return nil
	}
	n := &nameless{found: make(chan struct{})}
	go func() {
		defer close(n.found)
		defer again.Close()
		searching.Lock()
		defer searching.Unlock()
		n.search(again)
	}()
	return n
}

var (
	// flagName is a flag of V8 itself. Other JavaScript engines also contain versions of V8, which they are compatible
	// with.
	flagName = regexp.MustCompile(`interpreted[-_]frames[-_]native[-_]stack`)
	// versionText is V8's own version, with the name of the embedding program.
	versionText = regexp.MustCompile(
		`\x00([0-9]{1,3})\.([0-9]{1,3})\.[0-9]{1,5}\.[0-9]{1,5}-(?:rusty|electron\.[0-9]+|node\.[0-9]+)\x00`)
	// embedders are the prefixes of the names of embedding programs.
	embedders = [][]byte{[]byte("-rusty"), []byte("-electron."), []byte("-node.")}
	flagWord  = []byte("frames_native_stack")
	flagWords = []byte("frames-native-stack")
)

// maxVersion bounds the texts of a version and of the flag, in bytes.
const maxVersion = 64

// search finds the version in the file's constants.
func (n *nameless) search(file *elffile.File) {
	constants, err := file.OpenSection(".rodata")
	if err != nil {
		return
	}
	chunk := make([]byte, 1<<20)
	major, minor, isV8 := "", "", false
	for at := int64(0); ; at += int64(len(chunk) - maxVersion) {
		size, err := constants.Data.ReadAt(chunk, at)
		text := chunk[:size]
		if !isV8 && (bytes.Contains(text, flagWord) || bytes.Contains(text, flagWords)) {
			isV8 = flagName.Match(text)
		}
		for _, e := range embedders {
			if major != "" || !bytes.Contains(text, e) { // the regular expression is slow
				continue
			}
			if found := versionText.FindSubmatch(text); found != nil {
				major, minor = string(found[1]), string(found[2])
			}
		}
		if isV8 && major != "" {
			n.major, n.minor = major, minor
			return
		}
		if err != nil {
			return
		}
	}
}

// Attach implements language.Library: the rows of V8's code are frame pointers.
func (*nameless) Attach(language.Process) (language.Code, error) { return nil, language.ErrUnknown }

// Traits implements language.Library.
func (*nameless) Traits() language.Traits { return language.Traits{Frames: language.NamedFrames} }

// Evaluation implements language.Library: the location of V8's own code in the file is unknown.
func (*nameless) Evaluation() (runs, entering []language.Range) { return nil, nil }

// FindFrames implements language.Library.
func (n *nameless) FindFrames(language.Process) (language.FrameReader, error) {
	select {
	case <-n.found:
	default:
		return nil, language.ErrNotReady
	}
	if n.major == "" {
		return nil, language.ErrUnknown
	}
	frame := fmt.Sprintf("[V8 %s.%s code]", n.major, n.minor)
	return nil, &language.UnnamedError{
		Frame: frame, Made: frame,
		Hint: fmt.Sprintf("the program has V8 %s.%s without symbols, so functions of JavaScript have no names: start it "+
			"with --perf-basic-prof --interpreted-frames-native-stack, of deno by --v8-flags=, or run it in node",
			n.major, n.minor),
	}
}
