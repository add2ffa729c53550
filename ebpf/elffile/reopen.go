package elffile

import (
	"fmt"
	"os"
)

// Reopen opens the same image anew, even if its path has been deleted or
// replaced since. The caller closes it.
func (f *File) Reopen() (*File, error) {
	file, ok := f.r.(*os.File)
	if !ok {
		return newFile(f.r, f.size)
	}
	again, err := Open(fmt.Sprintf("/proc/self/fd/%d", file.Fd()))
	if err != nil {
		return nil, fmt.Errorf("reopen %s: %w", file.Name(), err)
	}
	return again, nil
}
