package main

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// redisRates are the rates at which a server that mostly allocates handles requests, by condition, by round.
type redisRates struct {
	Requests map[string][]float64 `json:"requests_per_second"`
	// First are the rates of the first requests: they are sent when the first sample was taken.
	First map[string][]float64 `json:"first_requests_per_second"`
}

const (
	redisRequests = 400_000
	redisFewer    = 20_000 // where each takes some hundred times as long
)

// redisSettings are the conditions to compare, each with the blocks of the configuration.
var redisSettings = []struct {
	name, block string
	requests    int
}{
	{alone, "", redisRequests},
	{"CPU time", " ", redisRequests},
	{"and heap", "heap { }", redisRequests},
	{"and heap without a limit", "heap {\n\t\toverhead_limit = 0\n\t}", redisFewer},
}

// measureRedis measures how many requests redis handles without a profiler, while memory in use is profiled, and while
// it is profiled whatever its probes cost.
func measureRedis(o options, save func(any) error) error {
	found := redisRates{Requests: map[string][]float64{}, First: map[string][]float64{}}
	for round := range o.rounds {
		for place := range redisSettings {
			how := redisSettings[inTurn(round, place, len(redisSettings))]
			fmt.Fprintf(os.Stderr, "round %d of %d: %s\n", round+1, o.rounds, how.name)
			first, rate, err := o.redisRate(how.block, how.requests)
			if err != nil {
				return fmt.Errorf("%s: %w", how.name, err)
			}
			found.First[how.name] = append(found.First[how.name], first)
			found.Requests[how.name] = append(found.Requests[how.name], rate)
		}
		if err := save(found); err != nil {
			return err
		}
	}
	found.write()
	return nil
}

// redisRate starts a server, and a profiler unless block is empty, and measures the first requests and later ones.
func (o *options) redisRate(block string, requests int) (first, later float64, err error) {
	address, err := freeAddress()
	if err != nil {
		return 0, 0, err
	}
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return 0, 0, err
	}
	server, err := start(exec.Command("redis-server", "--port", port, "--save", "", "--appendonly", "no"))
	if err != nil {
		return 0, 0, err
	}
	defer server.stopPrograms()
	time.Sleep(afterStart)
	if block != "" {
		c := o.contenders()[0]
		c.block = block
		p, err := c.start(settings{rate: o.rate, interval: o.interval})
		if err != nil {
			return 0, 0, err
		}
		defer p.stopProfiler()
	}
	if first, err = setsPerSecond(port, redisFewer); err != nil {
		return 0, 0, err
	}
	time.Sleep(o.warm)
	later, err = setsPerSecond(port, requests)
	return first, later, err
}

// setsPerSecond returns the rate at which a server handles SET requests of redis-benchmark.
func setsPerSecond(port string, requests int) (float64, error) {
	command := exec.Command("redis-benchmark", "-p", port, "-P", "8", "-t", "set", "-n", strconv.Itoa(requests), "--csv")
	out, err := command.CombinedOutput()
	if err != nil {
		return 0, fmt.Errorf("redis-benchmark: %w\n%s", err, out)
	}
	for line := range strings.Lines(string(out)) { // "SET","99800.40","0.231",...
		if fields := strings.Split(strings.TrimSpace(line), ","); len(fields) > 1 && fields[0] == `"SET"` {
			return strconv.ParseFloat(strings.Trim(fields[1], `"`), 64)
		}
	}
	return 0, fmt.Errorf("redis-benchmark: no rate of SET in %q", out)
}

func (r *redisRates) write() {
	fmt.Printf("%28s %22s %22s\n", "requests a second", "first", "later")
	for _, how := range redisSettings {
		fmt.Printf("%28s %22.0f %22.0f\n", how.name, median(r.First[how.name]), median(r.Requests[how.name]))
	}
}
