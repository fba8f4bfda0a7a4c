package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/cmd/evenkeel/internal/printing"
	"github.com/evenkeel/evenkeel/configs/scenarios"
	"github.com/evenkeel/evenkeel/document"
	"github.com/evenkeel/evenkeel/simulate"
)

// newSimulate builds the command that plays scenarios.
func newSimulate(color *printing.ColorMode) *cobra.Command {
	var output printing.Flags
	var files []string
	var list, pods bool
	var flags overrides
	limit := fileSize(document.DefaultMaxSize)
	cmd := &cobra.Command{
		Use:   "simulate {-f FILE... | NAME... | --list}",
		Short: "Play scenarios: pods, nodes and faults in virtual time",
		Long: `Play documents of kind Scenario: pods arrive and leave, the autoscaler orders nodes from a cloud in memory, nodes boot,
faults strike, in virtual time. Printed are a timeline, the node groups before and after with the reason for every size,
the pods that still run nowhere, and whether what the scenario expects holds. The same file gives the same output.

NAME is one of the scenarios that come with the program; --list names them. A file holds one or several scenarios, "-" is
standard input; files that a scenario names are looked for in its own folder. Flags with Cluster Autoscaler's names win over
the scenario's options. All scenarios are checked before any is
played. The exit code is 1 where an expectation does not hold, and 2 where a document or a file is wrong.`,
		Example: `  evenkeel simulate -f configs/scenarios/real-cluster.yaml
  evenkeel simulate zone-outage -o wide
  evenkeel simulate proposal-example --balance-similar-node-groups=false
  evenkeel simulate --list`,
		GroupID: groupAnswers,
		Args:    cobra.ArbitraryArgs,
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return scenarios.Names(), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, names []string) error {
			out := cmd.OutOrStdout()
			printer := output.Printer(out, color.Allows(out))
			if list {
				if given := slices.Concat(files, names); len(given) > 0 {
					return &usageError{fmt.Errorf("--list does not go with %s", strings.Join(given, ", ")), "it lists the scenarios that come with the program"}
				}
				return listScenarios(printer)
			}
			if len(files)+len(names) == 0 {
				return &usageError{errors.New("no scenario given"), "name one, see --list, or give a file with -f"}
			}
			sizes := sizeLimits{documents: int64(limit)}
			if cmd.Flags().Changed("max-file-size") {
				sizes.lists = int64(limit)
			}
			setups, err := loadScenarios(cmd, files, names, &flags, sizes)
			if err != nil {
				return err
			}
			reports, err := play(cmd.Context(), setups, cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			if !pods {
				for _, r := range reports {
					r.Status.Pods = nil
				}
			}
			if err := printReports(printer, reports); err != nil {
				return err
			}
			return failedExpectations(reports)
		},
	}
	addFiles(cmd.Flags(), &files, &limit)
	flags.addTo(cmd.Flags())
	cmd.Flags().BoolVar(&list, "list", false, "list the scenarios that come with the program")
	cmd.Flags().BoolVar(&pods, "pods", true, "say in JSON and YAML where each pod ran; false leaves it out, for scenarios with very many pods")
	output.AddTo(cmd, printing.Table, printing.Wide, printing.JSON, printing.YAML)
	return cmd
}

// sizeLimits bound files in bytes. Lists are streamed, and where nothing is said
// have a larger limit of their own.
type sizeLimits struct{ documents, lists int64 }

// loadScenarios reads files first and built-in scenarios after them, and all
// of them before it returns.
func loadScenarios(cmd *cobra.Command, files, names []string, flags *overrides, sizes sizeLimits) ([]*simulate.Setup, error) {
	options := document.Options{Kinds: simulate.Kinds(), MaxSize: sizes.documents}
	docs, err := document.ReadFiles(files, cmd.InOrStdin(), options)
	if err != nil {
		return nil, err
	}
	var setups []*simulate.Setup
	var problems []document.Problem
	load := func(docs []document.Document, open func(string) (io.ReadCloser, error)) error {
		for i := range docs {
			if scenario, ok := docs[i].Object.(*v1alpha1.Scenario); ok {
				flags.applyTo(scenario)
			}
			setup, err := simulate.Load(&docs[i], simulate.Files{Open: open, MaxSize: sizes.lists})
			var invalid *document.Invalid
			switch {
			case errors.As(err, &invalid):
				problems = append(problems, invalid.Problems...)
			case err != nil:
				return err
			default:
				if err := flags.bound(setup); err != nil {
					return err
				}
			}
			setups = append(setups, setup)
		}
		return nil
	}
	for i := range docs {
		if err := load(docs[i:i+1], beside(docs[i].File)); err != nil {
			return nil, err
		}
	}
	for _, name := range names {
		text, err := scenarios.Read(name)
		if err != nil {
			return nil, &usageError{fmt.Errorf("unknown scenario %q", name), "--list names them; a file is given with -f"}
		}
		docs, err := document.Read(name, bytes.NewReader(text), options)
		if err != nil {
			return nil, err
		}
		if err := load(docs, func(name string) (io.ReadCloser, error) { return scenarios.Files.Open(name) }); err != nil {
			return nil, err
		}
	}
	if len(problems) > 0 {
		return nil, &document.Invalid{Problems: problems}
	}
	return setups, nil
}

// beside opens files by names relative to the folder of another.
func beside(file string) func(string) (io.ReadCloser, error) {
	folder := filepath.Dir(file)
	return func(name string) (io.ReadCloser, error) {
		if !filepath.IsAbs(name) {
			name = filepath.Join(folder, name)
		}
		return os.Open(name)
	}
}

// play runs the scenarios one after the other, and shows on a terminal how far
// it has come.
func play(ctx context.Context, setups []*simulate.Setup, stderr io.Writer) ([]*v1alpha1.ScenarioReport, error) {
	var reports []*v1alpha1.ScenarioReport
	const erase = "\r\x1b[K"
	for _, setup := range setups {
		var o simulate.RunOptions
		if printing.TakesCodes(stderr) {
			o.Progress = func(p simulate.Progress) {
				fmt.Fprintf(stderr, "%s%s: +%s, round %d, %d pods pending", erase, setup.Name, p.At, p.Rounds, p.Pending)
			}
		}
		report, err := simulate.Run(ctx, setup, o)
		if o.Progress != nil {
			fmt.Fprint(stderr, erase)
		}
		if err != nil {
			return nil, err
		}
		reports = append(reports, report)
	}
	return reports, nil
}

func printReports(p *printing.Printer, reports []*v1alpha1.ScenarioReport) error {
	switch {
	case p.Tables():
		for _, r := range reports {
			if err := printReport(p, r, len(reports) > 1); err != nil {
				return err
			}
		}
		return nil
	case len(reports) == 1:
		return p.Object(reports[0])
	}
	items := listOf{APIVersion: "v1", Kind: "List", Items: make([]json.RawMessage, len(reports))}
	for i, r := range reports {
		var err error
		if items.Items[i], err = json.Marshal(r); err != nil {
			return err
		}
	}
	return p.Object(items)
}

// failedExpectations is the error of scenarios that did not end as they say.
func failedExpectations(reports []*v1alpha1.ScenarioReport) error {
	var failed []string
	for _, r := range reports {
		for _, e := range r.Status.Expectations {
			if !e.OK {
				failed = append(failed, fmt.Sprintf("%s: %s is %s, not %s", r.Name, e.Check, e.Got, e.Want))
			}
		}
	}
	if len(failed) == 0 {
		return nil
	}
	return errors.New("expectations do not hold: " + strings.Join(failed, "; "))
}
