package write

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/alecthomas/units"
	"github.com/go-kit/log"
	"github.com/go-kit/log/level"

	"github.com/headwater/headwater/component"
	"github.com/headwater/headwater/component/pyroscope/write/spool"
)

// QueueOptions make profiles wait on disk, separately for each endpoint.
type QueueOptions struct {
	MaxBytes      units.Base2Bytes `river:"max_size,attr,optional"`       // on disk, for one endpoint
	MaxAge        time.Duration    `river:"max_age,attr,optional"`        // of a profile
	MaxInFlight   int              `river:"max_in_flight,attr,optional"`  // pushes at the same time to one endpoint
	Fsync         string           `river:"fsync,attr,optional"`          // fsyncInterval, fsyncAlways or fsyncNever
	FsyncInterval time.Duration    `river:"fsync_interval,attr,optional"` // for fsyncInterval
}

// The values of fsync.
const (
	fsyncInterval = "interval"
	fsyncAlways   = "always"
	fsyncNever    = "never"
)

// Bounds of the options.
const (
	minQueueBytes = 1 << 20
	mostInFlight  = 16
)

// SetToDefault implements river.Defaulter.
func (o *QueueOptions) SetToDefault() {
	*o = QueueOptions{
		MaxBytes:      units.GiB,
		MaxAge:        time.Hour, // Pyroscope refuses older profiles
		MaxInFlight:   1,
		Fsync:         fsyncInterval,
		FsyncInterval: time.Second,
	}
}

// check returns an error that names the first option that cannot be used.
func (o *QueueOptions) check() error {
	switch {
	case o.MaxBytes < minQueueBytes:
		return component.Refuse("queue.max_size", "must be at least 1MiB, got %s", o.MaxBytes)
	case o.MaxAge <= 0:
		return component.Refuse("queue.max_age", "must be longer than 0s, got %s", o.MaxAge)
	case o.MaxInFlight < 1 || o.MaxInFlight > mostInFlight:
		return component.Refuse("queue.max_in_flight", "must be from 1 to %d, got %d", mostInFlight, o.MaxInFlight)
	case !slices.Contains([]string{fsyncInterval, fsyncAlways, fsyncNever}, o.Fsync):
		return component.Refuse("queue.fsync", `must be "interval", "always" or "never", got %q`, o.Fsync)
	case o.FsyncInterval <= 0:
		return component.Refuse("queue.fsync_interval", "must be longer than 0s, got %s", o.FsyncInterval)
	}
	return nil
}

// spool returns o as options of the spool.
func (o *QueueOptions) spool(logger log.Logger) spool.Options {
	policy := map[string]spool.SyncPolicy{
		fsyncInterval: spool.SyncInterval, fsyncAlways: spool.SyncAlways, fsyncNever: spool.SyncNever,
	}[o.Fsync]
	return spool.Options{MaxBytes: int64(o.MaxBytes), Sync: policy, Interval: o.FsyncInterval, Logger: logger}
}

// queueKeys returns the names of the endpoints' directories. A profile that waits for one server and tenant must not be
// sent to another server or tenant, so the name depends on both. It does not depend on credentials, which change.
func queueKeys(endpoints []*EndpointOptions) []string {
	keys := make([]string, len(endpoints))
	used := map[string]int{}
	for i, o := range endpoints {
		tenant := ""
		for name, value := range o.Headers {
			if http.CanonicalHeaderKey(name) == http.CanonicalHeaderKey("X-Scope-OrgID") {
				tenant = value
			}
		}
		user := ""
		if o.HTTPClient.BasicAuth != nil {
			user = o.HTTPClient.BasicAuth.Username
		}
		sum := sha256.Sum256([]byte(strings.Join([]string{o.URL, o.Name, tenant, user}, "\x00")))
		key := hex.EncodeToString(sum[:8])
		used[key]++
		if n := used[key]; n > 1 {
			key = fmt.Sprintf("%s-%d", key, n)
		}
		keys[i] = key
	}
	return keys
}

// sweep removes the directories of removed endpoints, once their contents are too old to be sent.
func sweep(root string, keep map[string]bool, maxAge time.Duration, logger log.Logger) {
	entries, err := os.ReadDir(root)
	if err != nil {
		return // the directory does not exist
	}
	for _, entry := range entries {
		dir := filepath.Join(root, entry.Name())
		if !entry.IsDir() || keep[entry.Name()] || time.Since(newest(dir)) < maxAge {
			continue
		}
		if err := os.RemoveAll(dir); err != nil {
			level.Warn(logger).Log("msg", "cannot remove the queue of an endpoint that is gone", "dir", dir, "err", err)
			continue
		}
		level.Info(logger).Log("msg", "removed the queue of an endpoint that is gone", "dir", dir)
	}
}

// newest returns the newest modification time of a file in dir.
func newest(dir string) time.Time {
	var last time.Time
	_ = filepath.WalkDir(dir, func(_ string, entry os.DirEntry, err error) error {
		if err != nil {
			return nil // removed in the meantime
		}
		if info, err := entry.Info(); err == nil && info.ModTime().After(last) {
			last = info.ModTime()
		}
		return nil
	})
	return last
}
