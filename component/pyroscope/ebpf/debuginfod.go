package ebpf

import (
	"slices"
	"time"

	"github.com/alecthomas/units"

	"github.com/headwater/headwater/ebpf/symbol/debuginfod"
)

// DebuginfodArguments configure the servers for separate debug files that this host does not have. Without the block,
// the files are fetched from the servers that the environment variable DEBUGINFOD_URLS lists, if it is set.
type DebuginfodArguments struct {
	URLs      []string         `river:"urls,attr,optional"`       // DEBUGINFOD_URLS if it is left out
	CacheDir  string           `river:"cache_dir,attr,optional"`  // "" is a folder in the user's cache
	CacheSize units.Base2Bytes `river:"cache_size,attr,optional"` // on disk
	Timeout   time.Duration    `river:"timeout,attr,optional"`    // longest silence of a server
}

// SetToDefault implements river.Defaulter.
func (d *DebuginfodArguments) SetToDefault() {
	*d = DebuginfodArguments{CacheSize: debuginfod.DefaultCacheSize, Timeout: debuginfod.DefaultTimeout}
}

// options converts the block, which may be nil.
func (d *DebuginfodArguments) options() debuginfod.Options {
	if d == nil {
		return debuginfod.Options{URLs: debuginfod.FromEnvironment()}
	}
	o := debuginfod.Options{URLs: slices.Clone(d.URLs), CacheDir: d.CacheDir, CacheSize: int64(d.CacheSize),
		Timeout: d.Timeout}
	if d.URLs == nil {
		o.URLs = debuginfod.FromEnvironment()
	}
	return o
}
