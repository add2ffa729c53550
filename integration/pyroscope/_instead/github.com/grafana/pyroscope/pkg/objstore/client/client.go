// Package client makes buckets. It stands in for Pyroscope's, which can make buckets of clouds too.
package client

import (
	"context"
	"fmt"

	"github.com/grafana/pyroscope/pkg/objstore"
	"github.com/grafana/pyroscope/pkg/objstore/providers/filesystem"
)

// Filesystem is the backend of buckets that are folders.
const Filesystem = "filesystem"

// StorageBackendConfig says which bucket is wanted.
type StorageBackendConfig struct {
	Backend    string
	Filesystem filesystem.Config
}

// Config says which bucket is wanted.
type Config struct{ StorageBackendConfig }

// NewBucket returns a bucket that is a folder.
func NewBucket(_ context.Context, config Config, _ string) (objstore.Bucket, error) {
	if config.Backend != Filesystem {
		return nil, fmt.Errorf("storage backend %q is left out of this build", config.Backend)
	}
	return filesystem.NewBucket(config.Filesystem.Directory)
}
