package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	v1 "k8s.io/api/core/v1"

	"github.com/evenkeel/evenkeel/apportion"
	"github.com/evenkeel/evenkeel/cmd/evenkeel/internal/printing"
	"github.com/evenkeel/evenkeel/internal/document"
	"github.com/evenkeel/evenkeel/internal/explain"
	"github.com/evenkeel/evenkeel/internal/grouppolicy"
	"github.com/evenkeel/evenkeel/internal/placement"
	"github.com/evenkeel/evenkeel/internal/simulate"
	"github.com/evenkeel/evenkeel/internal/spelling"
	"github.com/evenkeel/evenkeel/internal/subsets"
	"github.com/evenkeel/evenkeel/nodegroupset"
)

// newExplain builds the command that shows which node groups are similar, and why others are not.
func newExplain() *cobra.Command {
	var output printing.Flags
	var q question
	cmd := &cobra.Command{
		Use: "explain {--snapshot FILE | --nodes FILE --group-label KEY | --templates FILE | -f FILE} [GROUP [GROUP] | " +
			"frs/NAME... | ews/NAME...]",
		Short: "Show which node groups are similar, or where replicas or pods are, and why",
		Long: `Show which node groups form sets, which almost do, and how they differ, with both values, the measured ratio and the
limit, and the flags that would join them: for evenkeel, and for a Cluster Autoscaler without evenkeel.

Without GROUP it explains the whole fleet; with one GROUP, its set and how it differs from every other group; with two,
all differences between them. For the whole fleet it also says which zone or other domain pending pods with a topology spread
wait for, or prefer, and why.

The fleet is read from one of these sources ("-" is standard input):
  --snapshot   Cluster Autoscaler's debugging snapshot, which contains the templates it compares; with --pods for the pending
               pods that it leaves out
  --nodes      nodes and pods as kubectl get -o json or -o yaml prints them; a group's template is its first ready node
               by name, with the daemon set pods on it
  --templates  a list of nodes, one for each group; with --pods, daemon sets are added to the templates they fit
  -f           a document of kind Scenario: its groups as simulate compares them in the first round, or --at a later time,
               with its options

If the file or folder of -f has FederatedReplicaSets, they are explained instead: how many replicas each cluster is to have, and
how each number came about, step by step. Have the MemberClusters in it too:
  kubectl get federatedreplicasets,memberclusters -A -o yaml

If it has WorkloadSpreads, these are explained: in which subset each pod is and why, which pods are deleted first, and what happens
next. Have the workloads, pods, nodes and events in it too:
  kubectl get ews,deployments,replicasets,statefulsets,jobs,pods,nodes,events -o yaml

The exit code is 0 for every explanation, and 2 if a flag, a file or a group is wrong.`,
		Example: `  evenkeel explain --snapshot configs/scenarios/data/snapshotz.json
  evenkeel explain --snapshot configs/scenarios/data/snapshotz.json m5-large-a m5-large-b
  evenkeel explain --nodes nodes.json --pods pods.json --group-label eks.amazonaws.com/nodegroup
  evenkeel explain -f configs/scenarios/empty-sibling.yaml
  kubectl get frs,memberclusters -A -o yaml | evenkeel explain frs/web -f -
  kubectl get ews,deployments,replicasets,pods,nodes,events -o yaml | evenkeel explain ews/web -f -
  evenkeel explain --packs`,
		GroupID: groupAnswers,
		Args:    atMostTwoGroups,
		ValidArgsFunction: func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			return q.complete(cmd.Flags(), args), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: promptly(func(cmd *cobra.Command, groups []string) error {
			silence()
			if len(q.files) > 0 { // nodes and pods are not held as they are read
				defer collectOften()()
			}
			printer := output.Printer(cmd)
			if q.packs {
				if err := q.packsAlone(cmd.Flags(), groups); err != nil {
					return err
				}
				return printPacks(printer)
			}
			if explained, err := q.objects(cmd, groups, printer); explained || err != nil {
				return err
			}
			answer, err := q.answer(cmd, groups)
			if err != nil {
				return err
			}
			return printer.Result(answer, explanationParts(printer.Wide(), &answer.Status)...)
		}),
	}
	q.addTo(cmd.Flags())
	output.AddTo(cmd, printing.Table, printing.Wide, printing.JSON, printing.YAML)
	return cmd
}

// A question has the flags of the command.
type question struct {
	sources  explain.Sources
	files    []string
	contents *document.Contents // of files
	scenario string             // the first of files
	options  nodegroupset.Options
	limit    fileSize
	packs    bool
	policies string // file
	pending  pendingFlags
}

func atMostTwoGroups(_ *cobra.Command, groups []string) error {
	switch {
	case slices.ContainsFunc(groups, placement.Naming.HasKind), slices.ContainsFunc(groups, subsets.Naming.HasKind):
		return nil
	case len(groups) > 2:
		return fmt.Errorf("at most two node groups can be compared, but %d are named", len(groups))
	case len(groups) == 2 && groups[0] == groups[1]:
		return fmt.Errorf("node group %q is named twice", groups[0])
	}
	return nil
}

// sourceFlags name a fleet; the flags of comparedByLabels have no effect if groups are compared by
// chosen labels only.
var (
	sourceFlags      = []string{"snapshot", "nodes", "templates", "filename"}
	comparedByLabels = []string{
		"balancing-ignore-label", "disable-label-pack",
		"memory-difference-ratio", "max-allocatable-difference-ratio", "max-free-difference-ratio",
	}
)

func (q *question) addTo(flags *pflag.FlagSet) {
	flags.StringVar(&q.sources.Snapshot, "snapshot", "", "debugging snapshot of Cluster Autoscaler")
	flags.StringVar(&q.sources.Nodes, "nodes", "", "list of nodes; needs --group-label")
	flags.StringVar(&q.sources.Pods, "pods", "",
		"list of pods: with --nodes and --templates for the daemon sets, with --nodes and --snapshot for pending pods")
	flags.StringVar(&q.sources.GroupLabel, "group-label", "",
		"node label whose value names the node group; several, separated by commas, name it together")
	flags.StringVar(&q.sources.Templates, "templates", "", "list of nodes, one for each group")
	flags.StringArrayVarP(&q.files, "filename", "f", nil,
		"document of kind Scenario, or files of FederatedReplicaSets and MemberClusters, or of WorkloadSpreads: may be repeated")
	flags.BoolVar(&q.packs, "packs", false, "list the label packs and their keys, and nothing else")

	addSimilarityFlags(flags, &q.options)
	flags.StringVar(&q.policies, "node-group-policies", "", "FILE of NodeGroupPolicies, which declare sets")

	q.pending.addTo(flags)
	q.limit = document.DefaultMaxStream
	flags.Var(&q.limit, "max-file-size", "maximum size of a file")
}

// addSimilarityFlags adds Cluster Autoscaler's flags that determine which node groups are similar.
func addSimilarityFlags(flags *pflag.FlagSet, options *nodegroupset.Options) {
	flags.StringArrayVar(&options.IgnoreLabels, "balancing-ignore-label", nil, "label to ignore; may be repeated")
	flags.StringArrayVar(&options.Labels, "balancing-label", nil, "compare only this label; may be repeated")
	flags.StringArrayVar(&options.DisabledPacks, "disable-label-pack", nil, "label pack not to apply; may be repeated")
	flags.Var(&ratioFlag{&options.MemoryDifferenceRatio, "0.015"}, "memory-difference-ratio",
		"maximum ratio by which memory capacity may differ")
	flags.Var(&ratioFlag{&options.MaxAllocatableDifferenceRatio, "0.05"}, "max-allocatable-difference-ratio",
		"maximum ratio by which allocatable resources may differ")
	flags.Var(&ratioFlag{&options.MaxFreeDifferenceRatio, "0.05"}, "max-free-difference-ratio",
		"maximum ratio by which free resources (allocatable minus the requests of daemon sets) may differ")
}

// changed lists the flags that are given.
func changed(flags *pflag.FlagSet, names ...string) []string {
	var out []string
	for _, name := range names {
		if flags.Changed(name) {
			out = append(out, "--"+name)
		}
	}
	return out
}

const hintSource = "give --snapshot FILE, --nodes FILE with --group-label KEY, --templates FILE, or a scenario with -f FILE"

// check refuses flags that cannot be combined, or have no value.
func (q *question) check(flags *pflag.FlagSet) error {
	sources := changed(flags, sourceFlags...)
	if len(q.files) > 0 {
		q.scenario = q.files[0]
	}
	empty := misuse(slices.Contains(q.files, ""), hintSource, "--filename is empty")
	for _, name := range append([]string{"pods", "group-label"}, sourceFlags...) {
		empty = cmp.Or(empty, misuse(flags.Changed(name) && flags.Lookup(name).Value.String() == "", hintSource, "--%s is empty", name))
	}
	useless := changed(flags, comparedByLabels...)
	return cmp.Or(
		empty,
		misuse(len(sources) == 0, hintSource, "no source given"),
		misuse(len(sources) > 1, "a fleet is read from one source", "%s cannot be combined", strings.Join(sources, " and ")),
		misuse(q.sources.Nodes != "" && q.sources.GroupLabel == "",
			"name the label whose value is a node's group, such as eks.amazonaws.com/nodegroup", "--nodes needs --group-label"),
		misuse(q.scenario != "" && q.sources.Pods != "", "a scenario has its own pods", "--pods cannot be combined with -f"),
		misuse(q.scenario != "" && q.sources.GroupLabel != "", "a scenario has its own groupLabel", "--group-label cannot be combined with -f"),
		misuse(q.sources.Snapshot != "" && q.sources.GroupLabel != "", "a snapshot names its groups itself",
			"--group-label cannot be combined with --snapshot"),
		q.pending.check(flags, q.scenario != ""),
		misuse(len(q.options.Labels) > 0 && len(useless) > 0, "balancing labels alone decide, nothing else is compared",
			"--balancing-label cannot be combined with %s", strings.Join(useless, ", ")),
	)
}

// packsAlone refuses what has nothing to do with the list of label packs.
func (q *question) packsAlone(flags *pflag.FlagSet, groups []string) error {
	useless := changed(flags, slices.Concat(sourceFlags, comparedByLabels, []string{"pods", "group-label", "balancing-label"})...)
	useless = append(useless, groups...)
	return misuse(len(useless) > 0, "it lists the label packs, whatever the fleet", "--packs cannot be combined with %s",
		strings.Join(useless, ", "))
}

// answer reads the fleet and explains it.
func (q *question) answer(cmd *cobra.Command, groups []string) (*explain.Explanation, error) {
	if err := q.check(cmd.Flags()); err != nil {
		return nil, err
	}
	if _, err := nodegroupset.NewIndex(q.options); err != nil {
		return nil, wrongOption(err)
	}
	if q.policies != "" {
		var err error
		if _, q.options.Policies, err = grouppolicy.Read(inputsOf(cmd).open, q.policies); err != nil {
			return nil, err
		}
	}
	if err := q.pending.read(inputsOf(cmd).open); err != nil {
		return nil, err
	}
	fleet, options, moment, err := q.fleet(cmd)
	if err != nil {
		return nil, err
	}
	if q.policies != "" {
		options.Policies = q.options.Policies
		nodes := make(map[string]*v1.Node, len(fleet.Groups))
		for name, template := range fleet.Groups {
			nodes[name] = template.Node
		}
		if err := grouppolicy.Suit(q.policies, options.Policies, nodes); err != nil {
			return nil, err
		}
	}
	index, err := nodegroupset.NewIndex(options)
	if err != nil {
		return nil, err
	}
	answer, err := fleet.Explain(index, groups...)
	var unknown *document.UnknownName
	if errors.As(err, &unknown) {
		return nil, &usageError{err, "without a group, explain lists all"}
	}
	if err != nil || len(groups) > 0 {
		return answer, err
	}
	return answer, q.pending.explain(cmd.Context(), fleet, moment, &answer.Status)
}

// fleet reads the fleet, and the options with which it is compared; the moment is that of a scenario.
func (q *question) fleet(cmd *cobra.Command) (*explain.Fleet, nodegroupset.Options, *simulate.Moment, error) {
	if q.scenario != "" {
		return q.playable(cmd)
	}
	fleet, err := q.readFleet(inputsOf(cmd))
	if err != nil {
		return nil, q.options, nil, err
	}
	options := nodegroupset.ParseGroupLabel(q.sources.GroupLabel).Ignoring(q.options)
	if own := options.IgnoreLabels[len(q.options.IgnoreLabels):]; len(own) > 0 {
		fleet.Notes = append(fleet.Notes,
			fmt.Sprintf("%s names the groups here, so it makes no difference; elsewhere --balancing-ignore-label=%s says so",
				strings.Join(own, ","), strings.Join(own, " --balancing-ignore-label=")))
	}
	return fleet, options, nil, nil
}

// playable returns the fleet of a scenario as of a round. Flags override its options.
func (q *question) playable(cmd *cobra.Command) (*explain.Fleet, nodegroupset.Options, *simulate.Moment, error) {
	flags := &overrides{flags: cmd.Flags(), similar: q.options}
	l := scenarioLoader{in: inputsOf(cmd), files: []string{q.scenario}, flags: flags, variant: new(variant)}
	if cmd.Flags().Changed("max-file-size") {
		l.sizes.lists = int64(q.limit)
	}
	setups, _, err := l.loadAll(q.contents)
	if err != nil {
		return nil, q.options, nil, err
	}
	if len(setups) != 1 {
		return nil, q.options, nil, &usageError{fmt.Errorf("%s holds %s", q.scenario, spelling.Count(len(setups), "scenario")),
			"explain reads one; put it into a file of its own"}
	}
	moment, err := simulate.See(cmd.Context(), setups[0], q.pending.at)
	if err != nil {
		return nil, q.options, nil, err
	}
	observed := make([]explain.Observed, len(moment.Groups))
	for i, g := range moment.Groups {
		observed[i] = explain.Observed{ID: g.ID, Template: g.Template, AllOrNothing: g.AllOrNothing, Err: g.Err}
	}
	return explain.OfGroups(q.scenario, observed), setups[0].Options.Similarity, moment, nil
}

func (q *question) readFleet(in inputs) (*explain.Fleet, error) {
	fleet, err := explain.Read(q.sources, explain.Files{Open: in.open, MaxSize: int64(q.limit)})
	var path *os.PathError
	if errors.As(err, &path) {
		return nil, &usageError{err, "name a file that can be read, or - for standard input"}
	}
	return fleet, err
}

// optionFlags are the flags of options, by the option's name in an *apportion.InvalidError.
var optionFlags = map[string]string{
	"balancingIgnoreLabels": "balancing-ignore-label", "balancingLabels": "balancing-label", "disabledPacks": "disable-label-pack",
}

// wrongOption returns the error of an option with the name of its flag.
func wrongOption(err error) error {
	var invalid *apportion.InvalidError
	if !errors.As(err, &invalid) {
		return err
	}
	option, _, _ := strings.Cut(invalid.Path, "[")
	return &usageError{fmt.Errorf("invalid argument %q for --%s: %s", fmt.Sprint(invalid.Value), optionFlags[option], invalid.Reason),
		"--packs lists the label packs"}
}

// complete suggests the groups of the fleet that the flags name. It does not read standard input.
func (q *question) complete(flags *pflag.FlagSet, args []string) []string {
	if len(args) > 1 || q.scenario != "" || q.check(flags) != nil {
		return nil
	}
	fleet, err := q.readFleet(inputs{context.Background(), strings.NewReader("")})
	if err != nil {
		return nil
	}
	return slices.DeleteFunc(fleet.Names(), func(name string) bool { return slices.Contains(args, name) })
}

// ratioFlag is a flag that takes an exact decimal between 0 and 1.
type ratioFlag struct {
	into      **nodegroupset.Ratio
	otherwise string // the default, for the help
}

func (r *ratioFlag) String() string {
	if r.into == nil || *r.into == nil {
		return r.otherwise
	}
	return (*r.into).String()
}

func (r *ratioFlag) Type() string { return "ratio" }

func (r *ratioFlag) Set(text string) error {
	ratio, err := nodegroupset.ParseRatio(text)
	var invalid *apportion.InvalidError
	if errors.As(err, &invalid) {
		return errors.New(invalid.Reason)
	}
	*r.into = &ratio
	return err
}
