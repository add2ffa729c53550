package procfs

import (
	"bytes"
	"io"
	"os"
)

// Cwd returns the working directory of a process as the process sees it.
func (f FS) Cwd(pid uint32) (string, error) { return os.Readlink(f.pathOf(pid, "/cwd")) }

// MaxCmdline bounds the bytes that are read of the arguments of a process, which may have 6 MiB.
const MaxCmdline = 64 << 10

// Cmdline returns the arguments of a process, joined with spaces, up to MaxCmdline. A process may overwrite its
// arguments. Kernel threads have none.
func (f FS) Cmdline(pid uint32) (string, error) {
	file, err := os.Open(f.pathOf(pid, "/cmdline"))
	if err != nil {
		return "", err
	}
	defer file.Close()
	b, err := io.ReadAll(io.LimitReader(file, MaxCmdline))
	if err != nil {
		return "", err
	}
	args := bytes.Split(bytes.TrimRight(b, "\x00"), []byte{0})
	return string(bytes.Join(args, []byte(" "))), nil
}

// UID returns the real user ID of a process, as seen from our user namespace.
func (f FS) UID(pid uint32) (uint32, error) {
	s, err := f.Status(pid)
	return s.RealUID, err
}
