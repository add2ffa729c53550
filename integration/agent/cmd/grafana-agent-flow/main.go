// Command grafana-agent-flow is Grafana Agent Flow with Headwater's
// pyroscope.ebpf. Its command line is the Agent's, without convert.
package main

import (
	"fmt"
	"os"

	"github.com/grafana/agent/pkg/build"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"

	// Certificate authorities for systems that have none, as in the Agent.
	_ "golang.org/x/crypto/x509roots/fallback"
)

// version is the Agent's version, which the linker sets in a release of the Agent.
const version = "v0.40.0"

func main() {
	if build.Version == "" {
		build.Version = version
	}
	if os.Getenv("AGENT_MODE") == "" {
		os.Setenv("AGENT_MODE", "flow") // for the User-Agent of the Agent's requests
	}
	prometheus.MustRegister(build.NewCollector("agent"))
	if command().Execute() != nil {
		os.Exit(1)
	}
}

func command() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "grafana-agent-flow",
		Short:   "Grafana Agent Flow with Headwater's pyroscope.ebpf",
		Version: build.Print("agent"),
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Usage() },
	}
	cmd.SetVersionTemplate("{{ .Version }}\n")
	cmd.AddCommand(runCommand(), fmtCommand(), toolsCommand(), convertCommand())
	return cmd
}

// convertCommand refers the user to the Agent's own command.
func convertCommand() *cobra.Command {
	return &cobra.Command{
		Use:                "convert",
		Short:              "Not in this build: use the Agent's own",
		Hidden:             true,
		DisableFlagParsing: true,
		SilenceUsage:       true,
		RunE: func(*cobra.Command, []string) error {
			return fmt.Errorf("this build does not convert configurations: convert them with Grafana's own grafana-agent-flow")
		},
	}
}
