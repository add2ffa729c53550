package main

import (
	"fmt"
	"time"

	"github.com/grafana/ckit/advertise"
	"github.com/spf13/pflag"
)

// runFlags are the flags of grafana-agent-flow run. Their names and defaults are the Agent's.
type runFlags struct {
	listenAddr       string
	memoryAddr       string
	uiPrefix         string
	pprof            bool
	storagePath      string
	disableReporting bool
	configFormat     string
	bypassErrors     bool
	extraArgs        string
	cluster          clusterFlags
}

type clusterFlags struct {
	enabled             bool
	name                string
	nodeName            string
	advertiseAddress    string
	advertiseInterfaces []string
	joinAddresses       []string
	discoverPeers       string
	rejoinInterval      time.Duration
	maxJoinPeers        int
}

func (f *runFlags) register(set *pflag.FlagSet) {
	set.StringVar(&f.listenAddr, "server.http.listen-addr", "127.0.0.1:12345", "address to serve HTTP on")
	set.StringVar(&f.memoryAddr, "server.http.memory-addr", "agent.internal:12345",
		"address by which components reach the HTTP server without a socket")
	set.StringVar(&f.uiPrefix, "server.http.ui-path-prefix", "/", "where the UI is")
	set.BoolVar(&f.pprof, "server.http.enable-pprof", true, "serve /debug/pprof")
	set.StringVar(&f.storagePath, "storage.path", "data-agent/", "folder for what components store")
	set.BoolVar(&f.disableReporting, "disable-reporting", false,
		"accepted without effect: this build never reports what it runs to Grafana")
	set.StringVar(&f.configFormat, "config.format", "flow",
		"format of the configuration: flow; this build does not convert others")
	set.BoolVar(&f.bypassErrors, "config.bypass-conversion-errors", false, "accepted without effect: about other formats")
	set.StringVar(&f.extraArgs, "config.extra-args", "", "accepted without effect: about other formats")
	f.cluster.register(set)
}

func (f *clusterFlags) register(set *pflag.FlagSet) {
	set.BoolVar(&f.enabled, "cluster.enabled", false, "be a node of a cluster")
	set.StringVar(&f.name, "cluster.name", "", "the cluster's name; others are not joined")
	set.StringVar(&f.nodeName, "cluster.node-name", "", "this node's name; the host's if empty")
	set.StringVar(&f.advertiseAddress, "cluster.advertise-address", "", "address by which other nodes reach this one")
	set.StringSliceVar(&f.advertiseInterfaces, "cluster.advertise-interfaces", advertise.DefaultInterfaces,
		"network interfaces to take that address from, or all")
	set.StringSliceVar(&f.joinAddresses, "cluster.join-addresses", nil, "addresses of nodes to join, separated by commas")
	set.StringVar(&f.discoverPeers, "cluster.discover-peers", "",
		"how to find nodes to join, as pairs key=value of go-discover")
	set.DurationVar(&f.rejoinInterval, "cluster.rejoin-interval", time.Minute,
		"how often to look for nodes to join; 0 is never")
	set.IntVar(&f.maxJoinPeers, "cluster.max-join-peers", 5, "how many of the nodes found to join")
}

func (f *runFlags) check() error {
	switch {
	case f.configFormat != "flow":
		return fmt.Errorf("--config.format=%s: this build takes the format flow alone; "+
			"convert the configuration with Grafana's own grafana-agent-flow", f.configFormat)
	case len(f.cluster.joinAddresses) > 0 && f.cluster.discoverPeers != "":
		return fmt.Errorf("at most one of --cluster.join-addresses and --cluster.discover-peers may be given")
	}
	return nil
}
