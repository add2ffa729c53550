package main

import (
	"fmt"
	"io"
	"time"

	"github.com/headwater/headwater/ebpf"
)

// cpu profiles the CPU time of all processes for three seconds, and prints how many stacks are complete.
func cpu(out io.Writer, _ string) error {
	session, err := ebpf.Start(ebpf.Options{DefaultTarget: map[string]string{"service_name": "host"}})
	if err != nil {
		return err
	}
	defer session.Close()
	time.Sleep(3 * time.Second) // an agent collects every 15 s
	profiles, err := session.Collect()
	if err != nil {
		return err
	}
	for _, p := range profiles {
		fmt.Fprintf(out, "%s: %d samples, %d of %d user stacks complete\n",
			p.Labels["service_name"], p.Samples, p.Complete, p.WithUser)
	}
	return nil
}
