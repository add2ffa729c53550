package debugfile

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
	"golang.org/x/time/rate"

	"github.com/headwater/headwater/ebpf/common/limit"
	"github.com/headwater/headwater/ebpf/host/procfs"
	"github.com/headwater/headwater/ebpf/object/elffile"
)

// Limits on files that .gnu_debuglink names. Without a build ID, only the checksum of the whole file shows the program
// that it belongs to.
const (
	MaxLinked     = 2 << 30          // bytes of one file
	MaxLinkedTime = 10 * time.Second // to read one file
	linkedRate    = 8 << 20          // bytes a second for all files, after a burst of MaxLinked
	maxSums       = 1 << 12          // remembered sums
)

// errStopped reports that the Finder is closed.
var errStopped = errors.New("the profiler stops")

// checkSums computes the checksums of untrusted files, and remembers them: a file that does not match is checked again
// and again.
type checkSums struct {
	most  int64 // bytes of one file
	rate  *rate.Limiter
	ended atomic.Bool

	mu    sync.Mutex
	known map[fileVersion]uint32
}

// fileVersion identifies a file with its current content: a write changes one of the times.
type fileVersion struct {
	dev, inode       uint64
	size             int64
	written, changed unix.Timespec
}

func newCheckSums(most int) *checkSums {
	return &checkSums{most: int64(most), rate: rate.NewLimiter(linkedRate, most), known: map[fileVersion]uint32{}}
}

// sumOf returns the CRC-32 of a file's content, without moving its offset.
func (c *checkSums) sumOf(f procfs.File) (uint32, error) {
	stat, err := procfs.StatOf(f)
	if err != nil {
		return 0, err
	}
	version := fileVersion{uint64(stat.Dev), stat.Ino, stat.Size, stat.Mtim, stat.Ctim}
	c.mu.Lock()
	sum, ok := c.known[version]
	c.mu.Unlock()
	if ok {
		return sum, nil
	}
	if sum, err = c.compute(f, stat.Size); err != nil {
		return 0, fmt.Errorf("check sum of %s: %w", f.Name(), err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.known) >= maxSums {
		clear(c.known)
	}
	c.known[version] = sum
	return sum, nil
}

func (c *checkSums) compute(f io.ReaderAt, size int64) (uint32, error) {
	if size > c.most {
		return 0, limit.Hit(limit.DebugLink, fmt.Errorf("%d bytes, more than %d: %w", size, c.most,
			elffile.ErrTooLarge))
	}
	if !c.rate.AllowN(time.Now(), int(size)) {
		return 0, limit.Hit(limit.DebugLink, elffile.ErrBusy)
	}
	sum, until := crc32.NewIEEE(), time.Now().Add(MaxLinkedTime)
	content, buf := io.NewSectionReader(f, 0, size), make([]byte, 256<<10)
	for {
		n, err := content.Read(buf)
		sum.Write(buf[:n])
		switch {
		case err == io.EOF:
			return sum.Sum32(), nil
		case err != nil:
			return 0, err
		case c.ended.Load():
			return 0, errStopped
		case time.Now().After(until):
			return 0, limit.Hit(limit.DebugLink, fmt.Errorf("reading takes longer than %v", MaxLinkedTime))
		}
	}
}
