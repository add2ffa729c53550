package main

import (
	"fmt"
	"io"
	"time"

	"github.com/headwater/headwater/ebpf"
)

// labels prints the CPU time of the threads of one process, by the labels of its samples. The argument is its ID.
func labels(out io.Writer, pid string) error {
	options := ebpf.Options{
		Targets:     []map[string]string{{"__process_pid__": pid, "service_name": "one", "team": "shop"}},
		TargetsOnly: true,
	}
	options.Labels = []string{"thread_name", "thread_id"}
	session, err := ebpf.Start(options)
	if err != nil {
		return err
	}
	defer session.Close()
	time.Sleep(3 * time.Second)
	profiles, err := session.Collect()
	if err != nil {
		return err
	}
	for _, p := range profiles {
		fmt.Fprintf(out, "labels of the target: %v\n", p.Labels)
		threads := map[string]time.Duration{}
		for _, s := range p.Pprof.Sample {
			threads[s.Label["thread_name"][0]] += time.Duration(s.Value[0])
		}
		for name, used := range threads {
			fmt.Fprintf(out, "%s: %v\n", name, used)
		}
	}
	return nil
}
