// Command figures fills in the figures of README.md and docs from the records in integration/lab/results, so that they
// always match the measurements:
//
//	integration/lab/run figures                fill in
//	integration/lab/run figures -check         say what would change, and fail
//	integration/lab/run figures -save FILE [-as COMMAND] [-bench] -- PROGRAM ARGUMENT...
//
// The third form runs a program and saves its standard output as a record: JSON or, with -bench, the output of `go test
// -bench`. COMMAND is the command that the record names for repeating it; the default is the program's own command
// line.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

func main() {
	if err := fillDocuments(); err != nil {
		fmt.Fprintln(os.Stderr, "figures:", err)
		os.Exit(1)
	}
}

func fillDocuments() error {
	check := flag.Bool("check", false, "change no file, and fail where one would change")
	save := flag.String("save", "", "run a program and save what it prints as this record")
	as := flag.String("as", "", "with -save: the command that the record names")
	bench := flag.Bool("bench", false, "with -save: the program prints benchmarks, not JSON")
	flag.Parse()
	if *save != "" {
		return saveOutput(*save, *as, *bench, flag.Args())
	}
	if flag.NArg() > 0 {
		return fmt.Errorf("unknown argument %q", flag.Arg(0))
	}
	stale, err := fillAll(".", *check)
	switch {
	case err != nil:
		return err
	case *check && len(stale) > 0:
		return fmt.Errorf("%s: not what the records say; run integration/lab/run figures", strings.Join(stale, ", "))
	}
	for _, path := range stale {
		fmt.Println("filled in", path)
	}
	return nil
}

// fillAll fills in the documents of a repository and returns the changed documents. With dry it writes no files and
// returns the documents that would change.
func fillAll(root string, dry bool) (changed []string, err error) {
	documents, err := documentsOf(root)
	if err != nil {
		return nil, err
	}
	for _, path := range documents {
		old, err := os.ReadFile(filepath.Join(root, path))
		if err != nil {
			return nil, err
		}
		d := document{root: root, path: path}
		filled, err := d.fillTemplates(string(old))
		if err != nil {
			return nil, err
		}
		if filled == string(old) {
			continue
		}
		changed = append(changed, path)
		if dry {
			continue
		}
		if err := os.WriteFile(filepath.Join(root, path), []byte(filled), 0o644); err != nil {
			return nil, err
		}
	}
	return changed, nil
}

// documentsOf returns the user documentation: Markdown files, by their path in the repository.
func documentsOf(root string) ([]string, error) {
	documents := []string{"README.md"}
	err := filepath.WalkDir(filepath.Join(root, "docs"), func(path string, entry fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, ".md") {
			inside, _ := filepath.Rel(root, path) // both are below root
			documents = append(documents, inside)
		}
		return err
	})
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return documents, err
}
