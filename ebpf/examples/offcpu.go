package main

import (
	"io"
	"time"

	"github.com/headwater/headwater/ebpf"
)

// offCPU profiles what the threads of one process wait for. The argument is its ID.
func offCPU(out io.Writer, pid string) error {
	session, err := ebpf.Start(ebpf.Options{
		Targets:     []map[string]string{{"__process_pid__": pid, "service_name": "one"}},
		TargetsOnly: true,
		OffCPU:      ebpf.OffCPU{Rate: 10, States: ebpf.DefaultOffCPUStates()},
	})
	if err != nil {
		return err
	}
	defer session.Close()
	time.Sleep(3 * time.Second)
	profiles, err := session.Collect()
	if err != nil {
		return err
	}
	printTop(out, profiles)
	return nil
}
