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

// librarySuffix ends the name of the library, behind that of its source.
const librarySuffix = ".instant.so"

// compile makes the library that is preloaded. All its symbols are bound when it is loaded:
// the dynamic linker takes more of the stack than a signal handler may have.
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
