package main

import (
	"embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

//go:embed testdata/*.c
var sources embed.FS

// librarySuffix is appended to the name of the source to get the name of the library.
const librarySuffix = ".instant.so"

// compile builds the preloaded library. All its symbols are bound when it is loaded: lazy binding in the dynamic linker
// would use too much stack for a signal handler.
func compile(dir, name string, flags ...string) (path string, err error) {
	text, err := sources.ReadFile("testdata/" + name)
	if err != nil {
		return "", err
	}
	source, path := filepath.Join(dir, name), filepath.Join(dir, name+librarySuffix)
	if err := os.WriteFile(source, text, 0o644); err != nil {
		return "", err
	}
	args := append([]string{"-O2", "-Wall", "-shared", "-fPIC", "-Wl,-z,now", "-o", path, source}, flags...)
	if out, err := exec.Command("gcc", args...).CombinedOutput(); err != nil {
		return "", fmt.Errorf("gcc: %w\n%s", err, out)
	}
	return path, nil
}
