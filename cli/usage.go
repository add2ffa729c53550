package cli

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// exitUsage is the exit code for incorrect usage, and for a command that could not do its work.
const exitUsage = 2

// explainUsage makes a command and its subcommands exit with exitUsage for invalid arguments or flags, and print the
// command's usage.
func explainUsage(cmd *cobra.Command) {
	cmd.SetFlagErrorFunc(usageError)
	if check := cmd.Args; check != nil {
		cmd.Args = func(cmd *cobra.Command, args []string) error {
			if err := check(cmd, args); err != nil {
				return usageError(cmd, err)
			}
			return nil
		}
	}
	for _, child := range cmd.Commands() {
		explainUsage(child)
	}
}

// usageError adds the command's usage to an error.
func usageError(cmd *cobra.Command, err error) error {
	text := countedArguments.ReplaceAllStringFunc(plainly(err).Error(), func(found string) string {
		n, _, _ := strings.Cut(found, " ")
		if n == "1" {
			return n + " argument"
		}
		return n + " arguments"
	})
	return exitError{fmt.Errorf("%s\nUsage: %s\nSee %s --help", text, cmd.UseLine(), cmd.CommandPath()), exitUsage}
}

// plainly describes the valid values of a flag, without the name of the parsing function.
func plainly(err error) error {
	var flag *pflag.InvalidValueError
	var number *strconv.NumError
	if !errors.As(err, &flag) || !errors.As(err, &number) {
		return err
	}
	wanted := "a number"
	switch {
	case number.Func == "ParseBool":
		wanted = "true or false"
	case errors.Is(number, strconv.ErrRange):
		wanted = "a smaller number"
	}
	return fmt.Errorf("--%s must be %s, got %q", flag.GetFlag().Name, wanted, flag.GetValue())
}

// countedArguments matches cobra's counts of arguments.
var countedArguments = regexp.MustCompile(`\d+ arg\(s\)`)

// knownCommand refuses arguments: they name a command that does not exist.
func knownCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	meant := ""
	if cmd.SuggestionsMinimumDistance <= 0 {
		cmd.SuggestionsMinimumDistance = 2
	}
	if all := cmd.SuggestionsFor(args[0]); len(all) > 0 {
		meant = fmt.Sprintf(", did you mean %q?", all[0])
	}
	return fmt.Errorf("unknown command %q%s", args[0], meant)
}

// duration is a flag for a duration: 90s, 1m30s, or 90 for 90 seconds.
type duration time.Duration

// durationVar declares a flag for a duration.
func durationVar(flags *pflag.FlagSet, to *time.Duration, name string, standard time.Duration, usage string) {
	*to = standard
	flags.Var((*duration)(to), name, usage)
}

// Set implements pflag.Value.
func (d *duration) Set(text string) error {
	parsed, err := time.ParseDuration(text)
	if seconds, plain := strconv.ParseFloat(text, 64); plain == nil {
		parsed, err = time.Duration(seconds*float64(time.Second)), nil
		if seconds != seconds || seconds > 1e9 || seconds < -1e9 {
			return fmt.Errorf("%s seconds are not a valid duration", text)
		}
	}
	if err != nil {
		return fmt.Errorf("want a duration such as 10, 90s or 1m30s, got %q", text)
	}
	*d = duration(parsed)
	return nil
}

// String implements pflag.Value.
func (d *duration) String() string { return time.Duration(*d).String() }

// Type implements pflag.Value.
func (d *duration) Type() string { return "duration" }
