package cli

import (
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/pflag"
)

// runFlags are the flags of run that have an effect.
type runFlags struct {
	listenAddr   string
	allowedHosts []string
	uiPrefix     string
	pprof        bool
	storagePath  string
	format       string
	healthy      bool

	profilingOnly bool
}

// register declares the flags of run in Grafana Agent Flow v0.40 and in Alloy, so that service files and charts written
// for them work.
func (f *runFlags) register(flags *pflag.FlagSet) {
	flags.StringVar(&f.listenAddr, "server.http.listen-addr", "127.0.0.1:12345", "address to serve HTTP on")
	flags.StringSliceVar(&f.allowedHosts, "server.http.allowed-hosts", nil,
		"further host names of this server, such as a reverse proxy's; * for all")
	flags.StringVar(&f.uiPrefix, "server.http.ui-path-prefix", "/", "path prefix of the user interface and its API")
	flags.BoolVar(&f.pprof, "server.http.enable-pprof", true, "serve Headwater's own profiles on /debug/pprof/")
	flags.StringVar(&f.storagePath, "storage.path", "data-agent/", "folder for the data of components")
	flags.StringVar(&f.format, "config.format", "flow", "format of the configuration: flow or alloy, which are both River")

	flags.BoolVar(&f.healthy, "require-healthy", false,
		"answer /-/ready with 503 while a component is not healthy, such as a profiler that lacks privileges")

	flags.BoolVar(&f.profilingOnly, profilingOnlyFlag, false, profilingOnlyUsage)

	// Headwater never reports its use, so the flag has no effect.
	flags.Bool("disable-reporting", false, "accepted without effect: Headwater never reports its use")
	for _, other := range otherFlags() {
		other.declare(flags)
	}
}

// check returns an error if a flag's value cannot be used.
func (f *runFlags) check() error {
	switch f.format {
	case "flow", "alloy", "river":
	default:
		return fmt.Errorf("--config.format %s: Headwater reads River only (flow or alloy)", f.format)
	}
	if !strings.HasPrefix(f.uiPrefix, "/") || url.PathEscape(f.uiPrefix) != strings.ReplaceAll(f.uiPrefix, "/", "%2F") {
		return fmt.Errorf("--server.http.ui-path-prefix %q: want a path of plain characters that starts with /",
			f.uiPrefix)
	}
	return nil
}

// otherFlag is a flag of the Agent or Alloy that is accepted, but has no effect.
type otherFlag struct {
	name  string
	value interface{} // its default in the Agent or Alloy
}

func otherFlags() []otherFlag {
	return []otherFlag{
		{"server.http.memory-addr", "agent.internal:12345"},
		{"server.http.disable-support-bundle", false},
		{"server.http.enable-graphql", false},
		{"server.http.enable-graphql-playground", false},
		{"config.bypass-conversion-errors", false},
		{"config.extra-args", ""},
		{"cluster.enabled", false},
		{"cluster.node-name", ""},
		{"cluster.advertise-address", ""},
		{"cluster.join-addresses", ""},
		{"cluster.discover-peers", ""},
		{"cluster.advertise-interfaces", []string{"eth0", "en0"}},
		{"cluster.rejoin-interval", time.Minute},
		{"cluster.max-join-peers", 5},
		{"cluster.name", ""},
		{"cluster.enable-tls", false},
		{"cluster.tls-ca-path", ""},
		{"cluster.tls-cert-path", ""},
		{"cluster.tls-key-path", ""},
		{"cluster.tls-server-name", ""},
		{"cluster.wait-for-size", 0},
		{"cluster.wait-timeout", time.Duration(0)},
		{"stability.level", "generally-available"},
		{"feature.community-components.enabled", false},
		{"feature.component-shutdown-deadline", 10 * time.Minute},
		{"feature.prometheus.direct-fanout.enabled", false},
	}
}

func (o otherFlag) declare(flags *pflag.FlagSet) {
	const usage = "accepted without effect"
	switch value := o.value.(type) {
	case bool:
		flags.Bool(o.name, value, usage)
	case int:
		flags.Int(o.name, value, usage)
	case time.Duration:
		flags.Duration(o.name, value, usage)
	case []string:
		flags.StringSlice(o.name, value, usage)
	case string:
		flags.String(o.name, value, usage)
	}
	_ = flags.MarkHidden(o.name) // fails only for a flag that was not declared
}

// withoutEffect returns the given flags that have no effect.
func withoutEffect(flags *pflag.FlagSet) []string {
	var given []string
	for _, other := range otherFlags() {
		if flags.Changed(other.name) {
			given = append(given, "--"+other.name)
		}
	}
	return given
}
