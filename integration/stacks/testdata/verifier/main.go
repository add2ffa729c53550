// Verifier runs a command and compares its stacks as `headwater verify` does: it exits
// with 1 if they are not good enough and with 2 if that could not be tried. It is small,
// so that it can be built with one rule after another broken.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"time"

	"github.com/headwater/headwater/ebpf/verify"
)

func main() {
	report, err := run(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	if err := report.WriteText(os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	// The first samples of a program may be incomplete.
	if err := report.Judge(verify.Limits{Agreement: 0.99, Complete: 0.98, Coverage: 0.95}); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

func run(command []string) (report *verify.Report, err error) {
	const longest = time.Minute
	v, err := verify.Open(verify.Options{SampleRate: 499, TableBytes: 64 << 20, Examples: 1})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, v.Close()) }()
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), longest)
	defer cancel()
	failed := make(chan error, 1)
	go func() {
		failed <- cmd.Wait()
		cancel()
	}()
	if err := v.Restrict(uint32(cmd.Process.Pid)); err != nil {
		return nil, err
	}
	if report, err = v.Run(ctx); err != nil {
		return nil, err
	}
	return report, <-failed
}
