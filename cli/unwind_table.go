package cli

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/headwater/headwater/cli/internal/listing"
)

func unwindTableCommand() *cobra.Command {
	var f tableFlags
	cmd := &cobra.Command{
		Use:   "unwind-table [flags] FILE",
		Short: "Show the unwind rows of an executable or library",
		Long: `Shows the unwind rows of FILE. Rows come from .eh_frame and .debug_frame, from Go's table of
functions, or from the machine code. .debug_frame may be in the separate debug file. --stats shows
how much of the code each source covers. A row covers a range of addresses. It has the rules for the
canonical frame address (CFA), the caller's frame pointer and the return address.

Rules are written like those of "readelf --debug-dump=frames-interp": c-16 is the value stored 16
bytes below the CFA, s the same value as in the frame itself, u undefined. Code without a rule has
"-": there the unwinder follows the frame pointer. A rule that cannot be executed is shown with the
reason.`,
		Example: `  headwater unwind-table --stats /usr/bin/bash
  headwater unwind-table --pc 4011f0 ./program`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.showTable(cmd.OutOrStdout(), args[0]); err != nil {
				return exitError{err, exitUsage}
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&f.pc, "pc", "", "show only the row at this address of the file, in hexadecimal, and its FDE")
	cmd.Flags().BoolVar(&f.stats, "stats", false, "show sizes and untranslated ranges instead of rows")
	cmd.Flags().BoolVar(&f.json, "json", false, "write JSON, one object per line")
	cmd.MarkFlagsMutuallyExclusive("pc", "stats")
	return cmd
}

// tableFlags are the flags of the command unwind-table.
type tableFlags struct {
	pc          string
	stats, json bool
}

func (f *tableFlags) showTable(out io.Writer, path string) error {
	file, err := listing.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	switch {
	case f.pc != "":
		pc, err := strconv.ParseUint(strings.TrimPrefix(strings.ToLower(f.pc), "0x"), 16, 64)
		if err != nil {
			return fmt.Errorf("--pc %s: not an address in hexadecimal", f.pc)
		}
		return file.WritePC(out, pc, f.json)
	case f.stats:
		return file.WriteStats(out, f.json)
	}
	return file.WriteRows(out, f.json)
}
