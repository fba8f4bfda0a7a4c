package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/clock"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/cmd/evenkeel/internal/printing"
	"github.com/evenkeel/evenkeel/configs/scenarios"
	"github.com/evenkeel/evenkeel/internal/document"
	"github.com/evenkeel/evenkeel/internal/simulate"
	"github.com/evenkeel/evenkeel/internal/simulate/htmlreport"
	"github.com/evenkeel/evenkeel/predicates"
)

// newSimulate builds the command that plays scenarios.
func newSimulate() *cobra.Command {
	var output printing.Flags
	var list bool
	var o simulateOptions
	limit := fileSize(document.DefaultMaxSize)
	cmd := &cobra.Command{
		Use:   "simulate {-f FILE... | NAME... | --list}",
		Short: "Play scenarios: pods, nodes and faults in virtual time",
		Long: `Play documents of kind Scenario: pods arrive and leave, the autoscaler orders nodes from a cloud in memory, nodes boot,
faults happen, in virtual time. The output has a timeline, the node groups before and after with the reason for every size,
the pods that are still pending, and the result of each expectation. The same file gives the same output.

NAME is one of the scenarios that come with the program; --list names them. A file holds one or several scenarios, "-" is
standard input; files that a scenario names are relative to its own folder. Flags with Cluster Autoscaler's names override
the scenario's options. All scenarios are checked before any is
played. The exit code is 1 if an expectation does not hold, and 2 if a document or a file is wrong. Interrupted (Ctrl-C,
SIGTERM), it prints what has happened so far, marked as such, and exits with 130 or 143.

If the files have WorkloadSpreads and no scenario, they are played with the workloads, pods and nodes beside them, as kubectl
prints them: which pod goes to which subset and node, and which are deleted first. --replicas changes their number.`,
		Example: `  evenkeel simulate -f configs/scenarios/real-cluster.yaml
  evenkeel simulate zone-outage -o wide
  evenkeel simulate proposal-example --balance-similar-node-groups=false
  evenkeel simulate zone-outage --report report.html
  evenkeel simulate price --compare expander=least-waste
  kubectl get ews,deployments,replicasets,pods,nodes -o yaml | evenkeel simulate -f - --replicas 20
  evenkeel simulate --list`,
		GroupID: groupAnswers,
		Args:    cobra.ArbitraryArgs,
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return scenarios.Names(), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, names []string) error {
			silence()
			printer := output.Printer(cmd)
			if list {
				if given := slices.Concat(o.files, names); len(given) > 0 {
					return &usageError{fmt.Errorf("--list cannot be combined with %s", strings.Join(given, ", ")),
						"it lists the scenarios that come with the program"}
				}
				return listScenarios(printer)
			}
			if cmd.Flags().Changed("max-file-size") {
				o.sizes.lists = int64(limit)
			}
			o.sizes.documents = int64(limit)
			return o.run(cmd, names, printer)
		},
	}
	addFiles(cmd.Flags(), &o.files, &limit)
	o.flags.addTo(cmd.Flags())
	cmd.Flags().BoolVar(&list, "list", false, "list the scenarios that come with the program")
	cmd.Flags().BoolVar(&o.pods, "pods", true,
		"include in JSON and YAML where each pod ran; false omits it, for scenarios with very many pods")
	cmd.Flags().Int32Var(&o.replicas, "replicas", 0, "with a WorkloadSpread: how many replicas its workload has after a minute")
	cmd.Flags().StringVar(&o.page, "report", "",
		"FILE, also write an HTML page to it: charts over time, faults, each scale-up with its reasons")
	cmd.Flags().StringArrayVar(&o.compare, "compare", nil,
		"OPTION=VALUE, play each scenario twice, without and with this option, and show the differences; may be repeated. "+
			"OPTION=VALUE,VALUE,... plays it with each of these, as in autoscaler=stock,linked,sidecar; values that have commas "+
			"themselves are separated by semicolons")
	output.AddTo(cmd, printing.Table, printing.Wide, printing.JSON, printing.YAML)
	return cmd
}

// simulateOptions are the flags for playing scenarios.
type simulateOptions struct {
	files, compare []string
	pods           bool
	replicas       int32
	page           string
	flags          overrides
	sizes          sizeLimits
}

// run plays scenarios and prints the results.
func (o *simulateOptions) run(cmd *cobra.Command, names []string, printer *printing.Printer) error {
	if len(o.files)+len(names) == 0 {
		return &usageError{errors.New("no scenario given"), "name one, see --list, or give a file with -f"}
	}
	if err := canReplace(o.page); err != nil {
		return err
	}
	if err := o.flags.read(inputsOf(cmd).open, o.sizes.lists); err != nil {
		return err
	}
	variant, err := parseVariant(o.compare)
	if err != nil {
		return err
	}
	var setups []*simulate.Setup
	var changed [][]v1alpha1.ChangedOption
	meter := newMeter(cmd.ErrOrStderr(), clock.RealClock{})
	defer meter.end()
	meter.reading(simulate.Progress{Step: predicates.Step{Doing: "reading " + strings.Join(o.files, ", ")}})
	err = interruptibly(cmd.Context(), func() (err error) {
		l := scenarioLoader{in: inputsOf(cmd), files: o.files, names: names, flags: &o.flags, variant: variant, progress: meter.reading,
			sizes: o.sizes}
		contents, err := document.Scan(o.files, l.in.open, document.Options{
			Kinds: document.Kinds{v1alpha1.Scenario{}, v1alpha1.WorkloadSpread{}}, MaxSize: max(o.sizes.documents, o.sizes.lists),
		})
		if err != nil {
			return err
		}
		setups, changed, err = l.loadAll(contents)
		return err
	})
	if err != nil {
		return err
	}
	if cmd.Flags().Changed("replicas") {
		for _, setup := range setups {
			if err := rescale(setup, o.replicas); err != nil {
				return err
			}
		}
	}
	reports, err := play(cmd.Context(), setups, meter)
	meter.end()
	if err == nil {
		err = o.flags.missing(reports)
	}
	if !o.pods {
		for _, r := range reports {
			r.Status.Pods = nil
		}
	}
	if err != nil || len(o.compare) == 0 { // of an interrupted run, what has happened so far
		page := writePage(o.page, reports, func(r *v1alpha1.ScenarioReport) htmlreport.Result { return htmlreport.Result{Report: r} })
		if err := errors.Join(err, page, printing.All(printer, reports, (*v1alpha1.ScenarioReport).GetName, reportParts)); err != nil {
			return err
		}
		return failedExpectations(reports)
	}
	comparisons, first := compareRuns(reports, variant.runs(), changed)
	if err := writePage(o.page, comparisons,
		func(c *v1alpha1.ScenarioComparison) htmlreport.Result { return htmlreport.Result{Comparison: c} }); err != nil {
		return err
	}
	if err := printing.All(printer, comparisons, (*v1alpha1.ScenarioComparison).GetName, comparisonParts); err != nil {
		return err
	}
	if variant.several() {
		return nil // what a scenario expects is for one of them
	}
	return failedExpectations(first)
}

// sizeLimits bound files in bytes. Lists are streamed, and have a larger limit by default.
type sizeLimits struct{ documents, lists int64 }

// scenarioLoader loads scenarios from their sources, with the changes to apply to them, and collects what is wrong with them.
type scenarioLoader struct {
	in       inputs
	files    []string
	names    []string // of scenarios that come with the program
	flags    *overrides
	variant  *variant
	progress func(simulate.Progress) // of reading; nil if nobody waits
	sizes    sizeLimits

	sources  map[string]string // scenario names, and their sources
	setups   []*simulate.Setup
	changed  [][]v1alpha1.ChangedOption
	problems []document.Problem
}

// loadAll loads those of files first and then built-in scenarios, all of them before it returns. If
// there is a variant, each scenario is followed by a copy with the variant's options, and those
// options are returned as well.
func (l *scenarioLoader) loadAll(contents *document.Contents) ([]*simulate.Setup, [][]v1alpha1.ChangedOption, error) {
	docs, err := l.documents(contents)
	if err != nil {
		return nil, nil, err
	}
	l.sources = map[string]string{}
	for i := range docs {
		if err := l.load(&docs[i], l.in.beside(docs[i].File)); err != nil {
			return nil, nil, err
		}
	}
	for _, name := range l.names {
		docs, err := builtIn(name)
		if err != nil {
			return nil, nil, err
		}
		for i := range docs {
			if err := l.load(&docs[i], func(name string) (io.ReadCloser, error) { return scenarios.Files.Open(name) }); err != nil {
				return nil, nil, err
			}
		}
	}
	switch {
	case len(l.problems) > 0:
		return nil, nil, &document.Invalid{Problems: l.problems}
	case len(l.setups) == 0:
		return nil, nil, &usageError{fmt.Errorf("%s: holds no document", strings.Join(l.files, ", ")), "its list has no items"}
	}
	return l.setups, l.changed, nil
}

// builtIn reads a file of scenarios that comes with the program.
func builtIn(name string) ([]document.Document, error) {
	text, err := scenarios.Read(name)
	if err != nil {
		return nil, &usageError{fmt.Errorf("unknown scenario %q", name), "--list names them; a file is given with -f"}
	}
	return document.Read(name, bytes.NewReader(text), document.Options{Kinds: simulate.Kinds()})
}

// load loads a scenario as it is, and as each value of the variant makes it.
func (l *scenarioLoader) load(d *document.Document, open func(string) (io.ReadCloser, error)) error {
	if scenario, ok := d.Object.(*v1alpha1.Scenario); ok {
		l.flags.applyTo(scenario)
	}
	if first, again := l.sources[d.Name]; again && d.Name != "" {
		l.problems = append(l.problems, d.Refuse(field.Invalid(field.NewPath("metadata", "name"), d.Name,
			"is the name of a scenario of "+first+" already: reports are distinguished by name"))...)
		return nil
	}
	l.sources[d.Name] = fmt.Sprintf("%s, document %d", d.File, d.Number)
	files := simulate.Files{Open: open, MaxSize: l.sizes.lists, Progress: l.progress}
	for run := range l.variant.runs() {
		varied := l.variant.apply(*d, run)
		setup, err := simulate.Load(&varied, files)
		own := err // the problem of the scenario without changes
		if err != nil && l.variant.changes(run) {
			_, own = simulate.Load(d, files)
		}
		var invalid *document.Invalid
		if errors.As(own, &invalid) {
			for _, problem := range invalid.Problems {
				l.refuse(problem, d)
			}
			break
		}
		if err == nil {
			err = l.flags.bound(setup)
		}
		if err == nil && l.variant.changes(run) {
			err = l.variant.nodes.bound(setup)
		}
		if err != nil {
			return asUsage(strings.Join(l.variant.texts, " --compare "), err)
		}
		l.setups = append(l.setups, setup)
	}
	if len(l.variant.texts) > 0 {
		l.changed = append(l.changed, l.variant.changed(d.Object.(*v1alpha1.Scenario)))
	}
	return nil
}

// refuse notes a problem of a scenario, once if a flag causes it in several.
func (l *scenarioLoader) refuse(problem document.Problem, d *document.Document) {
	problem = l.flags.attribute(problem, d)
	if !slices.ContainsFunc(l.problems, func(noted document.Problem) bool { return noted.String() == problem.String() }) {
		l.problems = append(l.problems, problem)
	}
}

// play runs the scenarios one after the other, and shows its progress. If it is interrupted, the
// last report is partial.
func play(ctx context.Context, setups []*simulate.Setup, meter *meter) ([]*v1alpha1.ScenarioReport, error) {
	defer collect(seldom)()
	var reports []*v1alpha1.ScenarioReport
	for _, setup := range setups {
		report, err := simulate.Run(ctx, setup, meter.playing(setup.Name))
		if report != nil {
			reports = append(reports, report)
		}
		if err != nil {
			return reports, err
		}
	}
	return reports, nil
}

// failedExpectations returns the error for expectations that do not hold.
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

// canReplace checks before anything is played whether a report can be written to a file; an empty
// name means no report.
func canReplace(name string) error {
	if name == "" {
		return nil
	}
	const hint = "--report names a file, as in --report report.html"
	if name == "-" {
		return &usageError{errors.New("--report -: the page is not written to standard output"), hint}
	}
	info, err := os.Stat(name)
	switch {
	case err == nil && !info.Mode().IsRegular():
		return &usageError{fmt.Errorf("--report %s: is not a regular file", name), hint}
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return &usageError{fmt.Errorf("--report %s: %w", name, err), hint}
	}
	if folder, err := os.Stat(filepath.Dir(name)); err != nil || !folder.IsDir() {
		return &usageError{fmt.Errorf("--report %s: folder %s does not exist", name, filepath.Dir(name)), "create it first"}
	}
	return nil
}

// writePage writes the page of results, if a file is named for it.
func writePage[R any](name string, results []R, as func(R) htmlreport.Result) error {
	if name == "" {
		return nil
	}
	shown := make([]htmlreport.Result, len(results))
	for i, r := range results {
		shown[i] = as(r)
	}
	var page bytes.Buffer
	if err := htmlreport.Write(&page, shown); err != nil {
		return err
	}
	if err := replaceFile(name, page.Bytes(), 0o644); err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	return nil
}
