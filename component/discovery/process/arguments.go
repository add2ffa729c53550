package process

import (
	"time"

	"github.com/headwater/headwater/component/discovery"
)

// Arguments configure discovery.process.
type Arguments struct {
	Join            []discovery.Target `river:"join,attr,optional"` // targets of containers, to merge with their processes
	RefreshInterval time.Duration      `river:"refresh_interval,attr,optional"`
	Discover        Discover           `river:"discover_config,block,optional"`
}

// Discover selects the labels of each process.
type Discover struct {
	Exe         bool `river:"exe,attr,optional"`
	Cwd         bool `river:"cwd,attr,optional"`
	Commandline bool `river:"commandline,attr,optional"`
	ContainerID bool `river:"container_id,attr,optional"`
	CgroupPath  bool `river:"cgroup_path,attr,optional"`
	Username    bool `river:"username,attr,optional"`
	UID         bool `river:"uid,attr,optional"`
}

// SetToDefault implements river.Defaulter.
func (a *Arguments) SetToDefault() {
	*a = Arguments{RefreshInterval: time.Minute}
	a.Discover.SetToDefault()
}

// SetToDefault implements river.Defaulter.
func (d *Discover) SetToDefault() {
	*d = Discover{Exe: true, Cwd: true, Commandline: true, ContainerID: true}
}

// Validate implements river.Validator.
func (a *Arguments) Validate() error { return discovery.CheckInterval(a.RefreshInterval) }
