package testkit

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// Fixture returns a folder of files that take long to make, such as programs of several compilers. The folder is kept
// in the user's cache under headwater-test/fixtures, by the hash of key: the sources, the commands and the versions of
// the tools. So any change leads to another folder. build writes the files into dir; afterwards tests only read them.
// If several processes need a fixture, one builds it while the other processes wait.
func Fixture(t testing.TB, name string, key []string, build func(dir string) error) string {
	t.Helper()
	folder, err := fixture(name, key, build)
	if err != nil {
		t.Fatalf("fixture %s: %v", name, err)
	}
	return folder
}

func fixture(name string, key []string, build func(dir string) error) (folder string, err error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	cache = filepath.Join(cache, "headwater-test", "fixtures")
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return "", err
	}
	hash := sha256.New()
	for _, part := range key {
		fmt.Fprintf(hash, "%d %s", len(part), part)
	}
	folder = filepath.Join(cache, name+"-"+hex.EncodeToString(hash.Sum(nil))[:16])
	lock, err := os.OpenFile(folder+".lock", os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return "", err
	}
	defer lock.Close() // releases the lock
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return "", err
	}
	if _, err := os.Stat(folder); !errors.Is(err, fs.ErrNotExist) {
		return folder, err
	}
	made, err := os.MkdirTemp(cache, name+".making-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(made)
	if err := os.Chmod(made, 0o755); err != nil {
		return "", err
	}
	if err := build(made); err != nil {
		return "", err
	}
	return folder, os.Rename(made, folder)
}
