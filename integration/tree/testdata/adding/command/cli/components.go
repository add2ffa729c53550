package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/headwater/headwater/component/all"
)

func componentsCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "components",
		Short: "List the components that a configuration may use",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			registry, err := all.Registry()
			if err != nil {
				return err
			}
			for _, name := range registry.Names() {
				fmt.Fprintln(cmd.OutOrStdout(), name)
			}
			return nil
		},
	}
}
