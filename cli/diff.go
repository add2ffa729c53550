package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/google/pprof/profile"
	"github.com/spf13/cobra"

	"github.com/headwater/headwater/cli/internal/outfile"
	"github.com/headwater/headwater/cli/internal/profilefile"
	"github.com/headwater/headwater/flame/compare"
	"github.com/headwater/headwater/flame/export"
)

// diffFlags are the flags of the command diff.
type diffFlags struct {
	per        string
	total      bool
	all        bool
	confidence float64
	atLeast    float64
	top        int
	maxLost    float64
	json       bool
	check      bool
	output     string
	by         string
}

func diffCommand() *cobra.Command {
	o := compare.DefaultOptions()
	o.Per = compare.PerCPU // CPU time per second depends on what other programs run
	f := diffFlags{}
	cmd := &cobra.Command{
		Use:   "diff [flags] BASE[,BASE...] NEW[,NEW...]",
		Short: "Show which functions became more expensive between two profiles",
		Long: `Compares two profiles function by function, and lists the functions that changed by more than
chance explains. A profile counts samples, so every figure has an error. The bounds of the change
show the error.

A change has two parts: one factor for the whole profile, which the load of the host or the amount
of work may explain, and the share of each function. --per cpu compares the shares. --per second and
--per run compare hosts and runs that are alike.

--per count=N compares the cost of a unit of work, such as a request or a round. N is the number of
units that the program did during the recording. count=1000 applies to each file, count=1000,1200 to
each file of BASE and each file of NEW. With more files, there may be one number per file, BASE's
first. The numbers come from the program: its log, its metrics, or its input.

BASE and NEW are profiles in pprof's format, folded stacks, or URLs of either, such as a download
of the page of headwater run. Runs of the same program vary by more than the error of counting.
Several profiles a side, separated by commas, show this variation. Differences within it are not
called changes.

A change is certain if it exceeds --at-least with the probability --confidence, for all listed
functions together. Small changes need more samples: a longer recording, or a higher rate (-F 999).
Functions are the same if their names and binaries are equal. All functions of a binary without a
name are one entry.

Profiles of Headwater contain the number of samples that their host lost. Losses above --at-least
widen the bounds. A side that lost more than --max-lost is refused.

With --by, values of a label are compared instead of functions: CPUs (cpu) or NUMA nodes
(numa_node) of recordings with --label, or threads (thread_name) of recordings with --threads.

With --output, the flame graph of both profiles is written as one HTML file. Colours mark the
functions that differ by more than chance, and a table has the bounds of each function.

The exit code is 0, 1 with --check if a function certainly became more expensive, and 2 if the
profiles cannot be compared.`,
		Example: `  headwater record -F 999 -d 30 -p 4711 -o before.pb.gz
  headwater diff before.pb.gz after.pb.gz
  headwater diff before.pb.gz after.pb.gz -o diff.html
  headwater diff --per run one.pb.gz two.pb.gz   # a program that did the same work twice
  headwater diff --per count=40000,51000 before.pb.gz after.pb.gz   # served requests
  headwater diff --by numa_node before.pb.gz after.pb.gz`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			report, err := f.compareFiles(cmd, args)
			if err != nil {
				return exitError{err, exitUsage}
			}
			if grew := grown(report); f.check && grew > 0 {
				one, many := f.things()
				return exitError{fmt.Errorf("%s more expensive", plural(grew, one+" became", many+" became")), 1}
			}
			return nil
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.per, "per", string(o.Per), "compare shares of the whole profile, values per second, per run "+
		"or per unit of work, with N units a side (cpu, second, run, count=N[,N])")
	flags.BoolVar(&f.total, "total", false, "compare functions with their callees, instead of self values")
	flags.Float64Var(&f.confidence, "confidence", o.Confidence, "probability that all bounds hold, below 1")
	flags.Float64Var(&f.atLeast, "at-least", o.AtLeast, "smallest change to report, relative to the base: 0.05 is 5 %")
	flags.Float64Var(&f.maxLost, "max-lost", o.MaxLost, "largest share of lost samples on a side: 0.25 is 25 %")
	flags.StringVarP(&f.output, "output", "o", "", "write the flame graph of both profiles to this HTML file")
	flags.StringVar(&f.by, "by", "", "compare values of this label, such as cpu, numa_node or thread_name")
	flags.IntVar(&f.top, "top", 20, "maximum number of functions to show")
	flags.BoolVar(&f.all, "all", false, "also show functions whose change is not certain, with a question mark")
	flags.BoolVar(&f.json, "json", false, "print all functions as JSON")
	flags.BoolVar(&f.check, "check", false, "exit with 1 if a function certainly became more expensive")
	return cmd
}

// compareFiles compares, prints the report and writes the flame graph.
func (f *diffFlags) compareFiles(cmd *cobra.Command, args []string) (*compare.Report, error) {
	o, err := f.options(args)
	if err != nil {
		return nil, err
	}
	base, err := f.readProfiles(cmd, args[0])
	if err != nil {
		return nil, err
	}
	after, err := f.readProfiles(cmd, args[1])
	if err != nil {
		return nil, err
	}
	report, err := compare.Profiles(base, after, o)
	if err != nil {
		return nil, err
	}
	if f.output != "" {
		if err := f.write(report, base, after, args); err != nil {
			return nil, err
		}
	}
	return report, f.print(cmd.OutOrStdout(), report, args)
}

// options checks the flags.
func (f *diffFlags) options(args []string) (compare.Options, error) {
	o := compare.Options{
		Total: f.total, Confidence: f.confidence, AtLeast: f.atLeast, MaxLost: f.maxLost,
	}
	if err := o.SetPer(f.per); err != nil {
		return o, err
	}
	switch format, err := export.ByFile(f.output); {
	case f.top < 0:
		return o, fmt.Errorf("--top must not be negative, got %d", f.top)
	case f.output != "" && (err != nil || format.Name != "html"):
		return o, fmt.Errorf("--output writes HTML: name a file that ends in .html, got %q", f.output)
	case f.by != "" && (f.output != "" || f.total):
		return o, errors.New("--by compares values of a label, not functions: remove --output and --total")
	case f.output != "" && f.total:
		return o, errors.New("--output shows self and total values of functions: remove --total")
	case args[0] == "-" && args[1] == "-":
		return o, errors.New("only one of the profiles can be read from standard input")
	}
	return o, o.Validate()
}

// readProfiles reads profiles whose names are separated by commas, and groups them if requested.
func (f *diffFlags) readProfiles(cmd *cobra.Command, names string) (profiles []*profile.Profile, err error) {
	for name := range strings.SplitSeq(names, ",") {
		p, err := profilefile.Read(cmd.Context(), name, cmd.InOrStdin())
		if err != nil {
			return nil, err
		}
		if f.by != "" {
			if p, err = compare.ByLabel(p, f.by); err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
		}
		profiles = append(profiles, p)
	}
	return profiles, nil
}

// things returns the noun for the compared entries, singular and plural.
func (f *diffFlags) things() (one, many string) {
	if f.by != "" {
		return "value of " + f.by, "values of " + f.by
	}
	return "function", "functions"
}

// grown returns the number of functions that became more expensive.
func grown(r *compare.Report) (n int) {
	for _, c := range r.Changed {
		if c.Low > 1 {
			n++
		}
	}
	return n
}

func (f *diffFlags) print(w io.Writer, r *compare.Report, names []string) error {
	if f.json {
		return outfile.WriteJSON(w, r)
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for i, s := range []*compare.Side{&r.Base, &r.New} {
		fmt.Fprintln(t, strings.TrimRight(fmt.Sprintf("%s\t%s\t%d samples\t%.6g %s\t%s\t%s",
			[]string{"base", "new"}[i], names[i], s.Samples, s.Value, r.Unit, didOf(s)+tookOf(s), missingOf(s)), "\t"))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	scale, unit := shownUnit(r)
	switch all := &r.All; {
	case r.Per == compare.PerCount:
		fmt.Fprintf(w, "\nwhole profile: %s, from %.4g to %.4g %s per unit of work\n", percentBetween(all), scale*all.Base,
			scale*all.New, unit)
	case r.Factor != nil:
		fmt.Fprintf(w, "\nwhole profile: %s, from %.4g to %.4g %s per second\n", percentBetween(r.Factor), r.Factor.Base,
			r.Factor.New, unit)
	}
	shown := r.Changed
	if f.all {
		shown = append(slices.Clone(shown), r.Others...)
	}
	shown = shown[:min(len(shown), f.top)]
	if len(shown) > 0 {
		fmt.Fprintf(t, "\nbase\tnew\tchange\tbetween\t%s\n", cmp.Or(f.by, "function"))
	}
	for i, c := range shown {
		fmt.Fprintln(t, changeRow(&c, i < len(r.Changed), scale))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "\n%s\n", conclusion(r, f))
	return err
}

// missingOf describes a side's shares of lost samples and of incomplete stacks. It leaves out shares below 0.1 %.
func missingOf(s *compare.Side) string {
	var out []string
	if s.Lost != nil && *s.Lost >= 0.001 {
		out = append(out, fmt.Sprintf("%.1f %% of samples lost", 100**s.Lost))
	}
	if s.Incomplete >= 0.001 {
		out = append(out, fmt.Sprintf("%.1f %% in incomplete stacks", 100*s.Incomplete))
	}
	return strings.Join(out, ", ")
}

// didOf describes a side's number of units of work, or "" if it is unknown.
func didOf(s *compare.Side) string {
	if s.Count == 0 {
		return ""
	}
	return fmt.Sprintf("for %.10g units of work ", s.Count)
}

// shownUnit returns the unit in which values are shown, and the factor to convert a value to it: a unit of work may
// take so little time that seconds are hard to read.
func shownUnit(r *compare.Report) (scale float64, unit string) {
	if r.Per != compare.PerCount || r.Unit != "seconds" {
		return 1, r.Unit
	}
	switch most := max(r.All.Base, r.All.New); {
	case most < 1e-3:
		return 1e6, "microseconds"
	case most < 1:
		return 1e3, "milliseconds"
	}
	return 1, r.Unit
}

func tookOf(s *compare.Side) string {
	if s.Seconds <= 0 {
		return ""
	}
	return fmt.Sprintf("in %.1f s", s.Seconds)
}

// changeRow formats the row of a function. scale converts its values to the shown unit.
func changeRow(c *compare.Change, certain bool, scale float64) string {
	change, between := "new", "at least "+percentMore(c.Low)
	if c.Base > 0 {
		change = percentMore(c.New / c.Base)
	}
	if c.High != nil {
		between = percentMore(c.Low) + " and " + percentMore(*c.High)
	}
	if !certain {
		change += " ?"
	}
	return fmt.Sprintf("%.4g\t%.4g\t%s\t%s\t%s", scale*c.Base, scale*c.New, change, between, functionOf(c))
}

func functionOf(c *compare.Change) string {
	if c.Binary == "" {
		return c.Name
	}
	return c.Name + "  (" + c.Binary + ")"
}

// percentBetween formats a change in percent, and its bounds.
func percentBetween(c *compare.Change) string {
	if c.Base <= 0 {
		return "new"
	}
	text := percentMore(c.New / c.Base)
	if c.High == nil {
		return text + " (at least " + percentMore(c.Low) + ")"
	}
	return text + " (between " + percentMore(c.Low) + " and " + percentMore(*c.High) + ")"
}

// percentMore formats a ratio as a difference: "+20 %" for 1.2.
func percentMore(ratio float64) string { return fmt.Sprintf("%+.0f %%", 100*(ratio-1)) }

// conclusion states the result of the comparison in a sentence or two.
func conclusion(r *compare.Report, f *diffFlags) string {
	_, unit := shownUnit(r)
	values := map[compare.Per]string{
		compare.PerSecond: unit + " per second", compare.PerCPU: "shares of all " + unit, compare.PerRun: unit,
		compare.PerCount: unit + " per unit of work",
	}[r.Per]
	what := "for functions without callees"
	switch {
	case f.by != "":
		what = "for all functions"
	case f.total:
		what = "for functions with their callees"
	}
	one, many := f.things()
	text := fmt.Sprintf("Values are %s, %s. %s\n", values, what, spread(r))
	if n := r.Needed; n != nil && n.Times > 1 && f.by == "" {
		text += fmt.Sprintf("A 5 %% change of %s (%.0f %% of the profile) needs %d times as many profiles a side.\n",
			n.Name, 100*n.Share, n.Times)
	}
	if len(r.Changed) == 0 {
		return text + fmt.Sprintf("None of %s certainly changed by more than %g %%.",
			plural(len(r.Others), one, many), 100*f.atLeast)
	}
	text += fmt.Sprintf("%d of %s certainly changed by more than %g %%.",
		len(r.Changed), plural(len(r.Changed)+len(r.Others), one, many), 100*f.atLeast)
	if hidden := len(r.Changed) - f.top; hidden > 0 {
		text += fmt.Sprintf(" --top %d shows the other %d.", len(r.Changed), hidden)
	}
	return text
}

// spread says by how much runs of the same program differ.
func spread(r *compare.Report) string {
	if r.Spread == nil {
		return "One profile a side: the run-to-run variation is unknown. Pass several: a1,a2,a3 b1,b2,b3."
	}
	return fmt.Sprintf("Runs of one side vary by %.1f %%.", 100**r.Spread)
}

// plural formats a count of things.
func plural(n int, one, many string) string {
	if n == 1 {
		many = one
	}
	return fmt.Sprintf("%d %s", n, many)
}
