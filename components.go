package main

import (
	"github.com/headwater/headwater/component"
	"github.com/headwater/headwater/component/pyroscope/ebpf"
	"github.com/headwater/headwater/component/pyroscope/write"
	"github.com/headwater/headwater/component/remote/git"
)

// componentRegistry holds every component that this binary knows.
func componentRegistry() (component.Registry, error) {
	return component.NewRegistry(
		ebpf.Registration(),
		write.Registration(),
		git.Registration(),
	)
}
