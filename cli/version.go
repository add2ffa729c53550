package cli

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/headwater/headwater/cli/internal/outfile"
)

// versionInfo is the output of version --json.
type versionInfo struct {
	Version  string `json:"version"` // the module's, or derived from the commit; "(devel)" if neither is known
	Commit   string `json:"commit,omitempty"`
	Modified bool   `json:"modified"` // the tree had uncommitted changes
	Go       string `json:"go"`
	Platform string `json:"platform"` // linux/amd64
}

func versionCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "version [flags]",
		Short: "Show the version",
		Example: `  headwater version
  headwater version --json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			v := readVersion()
			if !asJSON {
				_, err := fmt.Fprintln(cmd.OutOrStdout(), "headwater", v.Version, v.Go, v.Platform)
				return err
			}
			return outfile.WriteJSON(cmd.OutOrStdout(), v)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "write JSON")
	return cmd
}

// readVersion returns the version information that the Go toolchain has stamped into the binary.
func readVersion() versionInfo {
	v := versionInfo{Version: "(devel)", Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	build, ok := debug.ReadBuildInfo()
	if !ok {
		return v
	}
	if build.Main.Version != "" {
		v.Version = build.Main.Version
	}
	for _, s := range build.Settings {
		switch s.Key {
		case "vcs.revision":
			v.Commit = s.Value
		case "vcs.modified":
			v.Modified = s.Value == "true"
		}
	}
	return v
}
