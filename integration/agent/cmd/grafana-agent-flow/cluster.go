package main

import (
	"fmt"
	stdlog "log"
	"net"
	"os"
	"slices"

	"github.com/go-kit/log"
	"github.com/go-kit/log/level"
	"github.com/grafana/agent/service/cluster"
	"github.com/grafana/ckit/advertise"
	"github.com/hashicorp/go-discover"
	"github.com/hashicorp/go-discover/provider/k8s"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"
)

// newCluster returns the service by which components share their work. Without a cluster it is a cluster of one node.
func newCluster(f clusterFlags, listenAddr string, logger log.Logger, metrics prometheus.Registerer,
	tracer trace.TracerProvider) (*cluster.Service, error) {
	_, port, err := net.SplitHostPort(listenAddr)
	if err != nil || port == "" {
		port = "80"
	}
	if f.nodeName == "" {
		if f.nodeName, err = os.Hostname(); err != nil {
			return nil, fmt.Errorf("naming this node: %w", err)
		}
	}
	discover, err := f.peers(port, logger)
	if err != nil {
		return nil, err
	}
	return cluster.New(cluster.Options{
		Log:                 logger,
		Metrics:             metrics,
		Tracer:              tracer,
		EnableClustering:    f.enabled,
		ClusterName:         f.name,
		NodeName:            f.nodeName,
		AdvertiseAddress:    f.advertised(port, logger),
		RejoinInterval:      f.rejoinInterval,
		ClusterMaxJoinPeers: f.maxJoinPeers,
		DiscoverPeers:       discover,
	})
}

// advertised returns the address by which other nodes reach this one.
func (f clusterFlags) advertised(port string, logger log.Logger) string {
	switch {
	case f.advertiseAddress != "":
		return withPort(f.advertiseAddress, port)
	case !f.enabled:
		return net.JoinHostPort("127.0.0.1", port)
	}
	interfaces := f.advertiseInterfaces
	if slices.Equal(interfaces, []string{"all"}) {
		interfaces = nil
	}
	addr, err := advertise.FirstAddress(interfaces)
	if err != nil {
		level.Warn(logger).Log("msg", "no network interface has an address to advertise; other nodes cannot reach this one",
			"err", err)
		return net.JoinHostPort("127.0.0.1", port)
	}
	return net.JoinHostPort(addr.String(), port)
}

// peers returns a function that finds nodes to join, or nil if no nodes are configured.
func (f clusterFlags) peers(port string, logger log.Logger) (func() ([]string, error), error) {
	switch {
	case len(f.joinAddresses) > 0:
		return func() ([]string, error) { return staticPeers(f.joinAddresses, port), nil }, nil
	case f.discoverPeers == "":
		return nil, nil
	}
	providers := map[string]discover.Provider{"k8s": &k8s.Provider{}}
	for name, provider := range discover.Providers {
		providers[name] = provider
	}
	discoverer, err := discover.New(discover.WithProviders(providers))
	if err != nil {
		return nil, fmt.Errorf("finding peers: %w", err)
	}
	output := stdlog.New(log.NewStdlibAdapter(logger), "", 0)
	return func() ([]string, error) {
		found, err := discoverer.Addrs(f.discoverPeers, output)
		if err != nil {
			return nil, fmt.Errorf("finding peers: %w", err)
		}
		return withPorts(found, port), nil
	}, nil
}

// staticPeers returns the addresses of nodes by name: an address is used directly, and any other name is looked up in
// the DNS as an SRV record.
func staticPeers(names []string, port string) []string {
	var addrs []string
	for _, name := range names {
		_, _, err := net.SplitHostPort(name)
		if err == nil || net.ParseIP(name) != nil {
			addrs = append(addrs, name)
			continue
		}
		_, records, err := net.LookupSRV("", "", name)
		if err != nil {
			continue
		}
		for _, record := range records {
			addrs = append(addrs, record.Target)
		}
	}
	return withPorts(addrs, port)
}

func withPorts(addrs []string, port string) []string {
	for i, addr := range addrs {
		addrs[i] = withPort(addr, port)
	}
	return addrs
}

// withPort adds port to an address that has none.
func withPort(addr, port string) string {
	if _, _, err := net.SplitHostPort(addr); err == nil {
		return addr
	}
	return net.JoinHostPort(addr, port)
}
