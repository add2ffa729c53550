package main

import (
	"io"
	"time"

	"github.com/headwater/headwater/ebpf"
	"github.com/headwater/headwater/ebpf/source/probe"
)

// probes takes a stack at each call of a function. The argument is a link, such as
// uprobe:/lib/x86_64-linux-gnu/libc.so.6:malloc.
func probes(out io.Writer, link string) error {
	parsed, err := probe.Parse(link)
	if err != nil {
		return err
	}
	session, err := ebpf.Start(ebpf.Options{
		DefaultTarget: map[string]string{"service_name": "host"},
		Probes:        []probe.Probe{parsed},
	})
	if err != nil {
		return err
	}
	defer session.Close()
	if err := session.Stats().Probes.Failure; err != nil { // the session tries again with each Collect
		return err
	}
	time.Sleep(3 * time.Second)
	profiles, err := session.Collect()
	if err != nil {
		return err
	}
	printTop(out, profiles)
	return nil
}
