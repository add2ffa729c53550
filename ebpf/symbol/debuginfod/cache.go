package debuginfod

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// cached is a file in the cache folder.
type cached struct {
	path string
	size int64
	used time.Time
}

// makeRoom removes files, the least recently used first, until more bytes fit. Removed files that are open stay
// readable.
func (c *Client) makeRoom(more int64) error {
	files, err := listFiles(c.options.CacheDir)
	if err != nil {
		return fmt.Errorf("look through the cache of debug files: %w", err)
	}
	slices.SortStableFunc(files, func(a, b cached) int { return a.used.Compare(b.used) })
	total := more
	for _, f := range files {
		total += f.size
	}
	for _, f := range files {
		if total <= c.options.CacheSize {
			break
		}
		if err := os.Remove(f.path); err != nil {
			return fmt.Errorf("make room for debug files: %w", err)
		}
		os.Remove(filepath.Dir(f.path)) // only if it is empty
		total -= f.size
	}
	return nil
}

// listFiles returns the files of this package and of elfutils' client in dir: dir/BUILDID/debuginfo, and remains of
// interrupted downloads.
func listFiles(dir string) ([]cached, error) {
	var files []cached
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || filepath.Dir(filepath.Dir(path)) != filepath.Clean(dir) ||
			!valid(filepath.Base(filepath.Dir(path))) {
			return ignoreMissing(err)
		}
		info, err := entry.Info()
		if err != nil {
			return ignoreMissing(err)
		}
		files = append(files, cached{path: path, size: info.Size(), used: info.ModTime()})
		return nil
	})
	return files, err
}

func ignoreMissing(err error) error {
	if os.IsNotExist(err) {
		return nil
	}
	return err
}
