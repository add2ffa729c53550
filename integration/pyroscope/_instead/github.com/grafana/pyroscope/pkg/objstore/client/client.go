// Package client makes buckets. It replaces Pyroscope's package, which also supports cloud buckets.
package client

import (
	"context"
	"fmt"

	"github.com/grafana/pyroscope/pkg/objstore"
	"github.com/grafana/pyroscope/pkg/objstore/providers/filesystem"
)

// Filesystem is the backend of buckets that are folders.
const Filesystem = "filesystem"

// StorageBackendConfig selects a bucket.
type StorageBackendConfig struct {
	Backend    string
	Filesystem filesystem.Config
}

// Config selects a bucket.
type Config struct{ StorageBackendConfig }

// NewBucket returns a bucket in a folder.
func NewBucket(_ context.Context, config Config, _ string) (objstore.Bucket, error) {
	if config.Backend != Filesystem {
		return nil, fmt.Errorf("storage backend %q is left out of this build", config.Backend)
	}
	return filesystem.NewBucket(config.Filesystem.Directory)
}
