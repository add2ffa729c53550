package main

import (
	"io"
	"time"

	"github.com/headwater/headwater/ebpf"
)

// heap profiles the memory that one process has allocated since the start and still uses. The argument is its ID.
func heap(out io.Writer, pid string) error {
	session, err := ebpf.Start(ebpf.Options{
		Targets:     []map[string]string{{"__process_pid__": pid, "service_name": "one"}},
		TargetsOnly: true,
		HeapBytes:   512 << 10, // a sample for each 512 KiB
		HeapLimit:   0.1,       // at most a tenth of the CPU time of the process
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
