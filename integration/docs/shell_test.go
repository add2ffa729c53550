package docs

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headwater/headwater/cli"
	"github.com/headwater/headwater/integration/testkit/need"
)

// shellCommand is a command line of a document.
type shellCommand struct {
	where string
	words []string
}

// shellCommands returns the command lines in the documents' pieces of shell code, and the commands of make, headwater
// and go in the text.
func shellCommands(t testing.TB) []shellCommand {
	t.Helper()
	var commands []shellCommand
	inText := regexp.MustCompile("`((?:make|headwater|go run|go test) [^`]*)`")
	for _, d := range documents(t) {
		if d.path == "CHANGELOG.md" {
			continue // it speaks of the past
		}
		for _, f := range d.fences {
			if f.language != "sh" {
				continue
			}
			for i, line := range strings.Split(strings.TrimSuffix(f.text, "\n"), "\n") {
				commands = append(commands, shellCommand{fmt.Sprintf("%s:%d", d.path, f.line+i), wordsOf(line)})
			}
		}
		for _, l := range d.lines {
			for _, found := range inText.FindAllStringSubmatch(l.text, -1) {
				commands = append(commands, shellCommand{fmt.Sprintf("%s:%d", d.path, l.number), wordsOf(found[1])})
			}
		}
	}
	require.Greater(t, len(commands), 50)
	return commands
}

// wordsOf splits a command line, without a comment and sudo.
func wordsOf(line string) []string {
	line, _, _ = strings.Cut(line, " #")
	words := strings.Fields(line)
	if len(words) > 0 && words[0] == "sudo" {
		words = words[1:]
	}
	return words
}

// TestShellCommands: targets of make, commands and flags of headwater, and packages that
// a document names exist.
func TestShellCommands(t *testing.T) {
	for _, c := range shellCommands(t) {
		if problem := checkCommand(t, c.words); problem != "" {
			t.Errorf("%s: %s: %s", c.where, strings.Join(c.words, " "), problem)
		}
	}
}

func checkCommand(t testing.TB, words []string) string {
	switch {
	case len(words) == 0:
		return ""
	case words[0] == "make":
		return checkMake(t, words[1:])
	case filepath.Base(words[0]) == "headwater":
		return checkHeadwater(words[1:])
	case words[0] == "go" && len(words) > 2:
		return checkGo(words[1:])
	case words[0] == "integration/lab/run" && len(words) > 1:
		if _, err := os.Stat(filepath.Join(root, "integration/lab", words[1])); err != nil {
			return "there is no such program"
		}
		return ""
	case slices.Contains([]string{"kill", "curl", "git"}, words[0]):
		return ""
	}
	return "what kind of command is this?"
}

// checkMake looks for the targets.
func checkMake(t testing.TB, words []string) string {
	makefile := "Makefile"
	if len(words) > 1 && words[0] == "-C" {
		makefile, words = words[1]+"/Makefile", words[2:]
	}
	text, err := os.ReadFile(filepath.Join(root, makefile))
	if err != nil {
		return err.Error()
	}
	targets := 0
	for _, word := range words {
		if strings.Contains(word, "=") {
			continue
		}
		targets++
		if !regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(word) + `:`).Match(text) {
			return makefile + " has no target " + word
		}
	}
	if targets == 0 {
		return "no target"
	}
	return ""
}

// checkHeadwater looks for the command and parses its flags.
func checkHeadwater(words []string) string {
	if len(words) == 1 && words[0] == "COMMAND" {
		return ""
	}
	command, rest, err := find(words)
	if err != nil {
		return err.Error()
	}
	if !command.HasParent() && len(rest) > 0 && !strings.HasPrefix(rest[0], "-") {
		return "no such command"
	}
	for _, word := range rest {
		if word == "--" {
			break
		}
		name, _, _ := strings.Cut(strings.TrimLeft(word, "-[]"), "=")
		switch {
		case !strings.HasPrefix(word, "-") || slices.Contains([]string{"help", "version"}, name):
		case strings.HasPrefix(word, "--") && command.Flags().Lookup(name) == nil:
			return "no flag --" + name
		case !strings.HasPrefix(word, "--") && command.Flags().ShorthandLookup(name) == nil:
			return "no flag -" + name
		}
	}
	return ""
}

// checkGo looks for the package, and for the test that -run names.
func checkGo(words []string) string {
	pattern, module := "", root
	for i, word := range words {
		if word == "-C" && i+1 < len(words) {
			module = filepath.Join(root, words[i+1])
		}
		if word == "--" {
			break
		}
		if word == "-run" && i+1 < len(words) {
			pattern = strings.Trim(words[i+1], "'^$")
		}
		folder, all := strings.CutSuffix(word, "/...")
		if !strings.HasPrefix(word, "./") || folder == "." {
			continue
		}
		if _, err := os.Stat(filepath.Join(module, folder)); err != nil {
			return "there is no " + folder
		}
		if pattern != "" && !hasTest(filepath.Join(module, folder), pattern, all) {
			return folder + " has no test " + pattern
		}
	}
	return ""
}

// hasTest reports whether a folder has a test whose name starts with pattern.
func hasTest(folder, pattern string, below bool) bool {
	found := false
	_ = filepath.WalkDir(folder, func(path string, entry os.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && path != folder && !below:
			return filepath.SkipDir
		case !strings.HasSuffix(path, "_test.go"):
			return nil
		}
		text, err := os.ReadFile(path)
		found = found || strings.Contains(string(text), "\nfunc "+pattern)
		return err
	})
	return found
}

// TestWorkflows: what the workflows run by make exists.
func TestWorkflows(t *testing.T) {
	paths, err := filepath.Glob(filepath.Join(root, ".github/workflows/*.yml"))
	require.NoError(t, err)
	require.NotEmpty(t, paths)
	found := 0
	for _, path := range paths {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		for _, run := range regexp.MustCompile(`(?m)^\s*- run: (make .*)$`).FindAllStringSubmatch(string(text), -1) {
			found++
			require.Empty(t, checkCommand(t, wordsOf(run[1])), "%s: %s", path, run[1])
		}
	}
	require.GreaterOrEqual(t, found, 5)
}

// TestCheckCommand: errors in commands are found.
func TestCheckCommand(t *testing.T) {
	for line, want := range map[string]string{
		"make run":                                         "",
		"make -C integration crash CRASHES=10":             "",
		"make nothing":                                     "Makefile has no target nothing",
		"make -C integration run":                          "integration/Makefile has no target run",
		"sudo ./headwater verify --json -- sleep --x 1":    "",
		"headwater verify --nonsense":                      "no flag --nonsense",
		"headwater fmt -w FILE":                            "",
		"headwater fmt -z FILE":                            "no flag -z",
		"go test ./integration/docs":                       "",
		"go test -run TestCheckCommand ./integration/docs": "",
		"go test -run TestNone ./integration/docs":         "./integration/docs has no test TestNone",
		"go run ./integration/none":                        "there is no ./integration/none",
		"rm -rf /":                                         "what kind of command is this?",
	} {
		require.Equal(t, want, checkCommand(t, wordsOf(line)), line)
	}
	require.Contains(t, checkCommand(t, wordsOf("headwater stop")), "no such command")
}

// TestMain lets the test binary be headwater itself.
func TestMain(m *testing.M) {
	if os.Getenv("HEADWATER_TEST_AS_PROGRAM") != "" {
		os.Exit(cli.Execute())
	}
	os.Exit(m.Run())
}

// TestCheapCommands runs the documents' commands that are quick and make no changes.
func TestCheapCommands(t *testing.T) {
	need.Tools(t, "/bin/true")
	ran := 0
	for _, c := range shellCommands(t) {
		if len(c.words) < 2 || filepath.Base(c.words[0]) != "headwater" || !isCheap(c.words[1:]) {
			continue
		}
		ran++
		cmd := exec.Command(os.Args[0], c.words[1:]...)
		cmd.Dir, cmd.Env = root, append(os.Environ(), "HEADWATER_TEST_AS_PROGRAM=1")
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s: %s\n%s", c.where, strings.Join(c.words, " "), out)
	}
	require.GreaterOrEqual(t, ran, 3)
}

// isCheap reports whether all that a command names is there, and it is one that only
// reads.
func isCheap(words []string) bool {
	if !slices.Contains([]string{"validate", "fmt", "unwind-table"}, words[0]) || len(words) < 2 ||
		slices.Contains(words, "-w") {
		return false
	}
	for _, word := range words[1:] {
		if strings.HasPrefix(word, "-") {
			continue
		}
		path := word
		if !filepath.IsAbs(path) {
			path = filepath.Join(root, path)
		}
		if _, err := os.Stat(path); err != nil {
			return false
		}
	}
	return true
}
