package main

import (
	"fmt"
	"io"
	"time"

	"github.com/headwater/headwater/ebpf/host/filework"
	"github.com/headwater/headwater/ebpf/object/corefile"
	"github.com/headwater/headwater/ebpf/profile"
	"github.com/headwater/headwater/ebpf/sampler"
	"github.com/headwater/headwater/ebpf/source/snapshot"
)

// core prints the stacks of a core file, which needs neither BPF nor root. The argument is its path.
func core(out io.Writer, path string) error {
	file, err := corefile.Open(path, corefile.Options{})
	if err != nil {
		return err
	}
	defer file.Close()
	threads, walker := snapshot.OfCore(file)
	defer walker.Close()
	names, err := profile.New(profile.Options{SampleRate: 1}, walker, &filework.Pool{})
	if err != nil {
		return err
	}
	defer names.Close()
	for _, thread := range threads {
		fmt.Fprintf(out, "thread %d, whole: %v\n", thread.TID, thread.Whole())
		if thread.Sample == nil {
			continue
		}
		for _, stack := range names.Name([]*sampler.Sample{thread.Sample}, 10*time.Second) {
			for _, frame := range stack.User {
				for _, line := range frame.Lines {
					fmt.Fprintln(out, " ", line.Function)
				}
			}
		}
	}
	return nil
}
