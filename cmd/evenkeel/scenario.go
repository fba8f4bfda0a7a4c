package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	"github.com/evenkeel/evenkeel/internal/document"
	"github.com/evenkeel/evenkeel/internal/simulate"
)

// newScenario groups the commands about documents of kind Scenario.
func newScenario() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "scenario",
		Short:   "Write scenarios for simulate",
		Long:    "Write documents of kind Scenario, which evenkeel simulate plays.",
		GroupID: groupAnswers,
	}
	cmd.AddCommand(newFromDump())
	return cmd
}

// fromDump has the flags of the command.
type fromDump struct {
	source
	options simulate.DumpOptions
	added   []string
	nodes   []string
}

func newFromDump() *cobra.Command {
	o := fromDump{source: source{limit: document.DefaultMaxStream}}
	cmd := &cobra.Command{
		Use:   "from-dump [FILE...|-]",
		Short: "Make a scenario from a cluster, or from the output of kubectl",
		Long: `Make a scenario from a cluster, or from the output of kubectl, and write it to standard output as YAML. You can edit it, and
play it with evenkeel simulate -f. It needs no other file.

A FILE contains lists or objects as kubectl get -o json or -o yaml prints them, of one kind or mixed; a folder stands for the
files in it, "-" is standard input. Without a FILE the cluster itself is read. It is found as by kubectl: with
--kubeconfig, $KUBECONFIG or ~/.kube/config, or in a pod by its service account. Nothing is written to it.

Nodes are required. Pods that run or are pending, daemon sets, claims, volumes, storage and priority classes are included. Node
groups are found by a label of the nodes; their bounds come from --nodes, else from the ConfigMap cluster-autoscaler-status of
Cluster Autoscaler.`,
		Example: `  evenkeel scenario from-dump --context production >scenario.yaml
  evenkeel scenario from-dump nodes.json pods.json daemonsets.json >scenario.yaml
  evenkeel scenario from-dump dump/ --nodes 0:20:web | evenkeel simulate -f -`,
		RunE: promptly(func(cmd *cobra.Command, args []string) error {
			o.files = slices.Concat(o.files, args)
			var dumped *simulate.Dumped
			meter := newMeter(cmd.ErrOrStderr(), clock.RealClock{})
			err := interruptibly(cmd.Context(), func() (err error) {
				defer collectOften()()
				dumped, err = o.dumped(cmd, meter.reading)
				return err
			})
			meter.end()
			if err != nil {
				return err
			}
			runtime.GC() // the nodes are not needed any more
			for _, note := range dumped.Notes {
				fmt.Fprintln(cmd.ErrOrStderr(), "note:", note)
			}
			return writeScenario(cmd.OutOrStdout(), dumped)
		}),
	}
	flags := cmd.Flags()
	flags.StringVar(&o.options.Name, "name", "from-dump", "name of the scenario")
	flags.StringArrayVar(&o.nodes, "nodes", nil, "MIN:MAX:GROUP, bounds of a node group; may be repeated")
	flags.StringArrayVar(&o.added, "add", nil, addUsage)
	flags.Int32Var(&o.options.Max, "max", 100, "maximum of groups whose bounds are unknown")
	o.addTo(flags, &o.options)
	return cmd
}

// dumped makes the scenario, and shows the progress of reading.
func (o *fromDump) dumped(cmd *cobra.Command, progress func(simulate.Progress)) (*simulate.Dumped, error) {
	if o.options.Max < 0 {
		return nil, &usageError{fmt.Errorf("--max=%d: must not be negative", o.options.Max), "it bounds the groups whose bounds are unknown"}
	}
	dump := &simulate.Dump{}
	missing, err := o.read(cmd, progress, dump.Add, o.live.eachObject)
	if err != nil {
		return nil, err
	}
	if err := addNew(dump, inputsOf(cmd).open, o.added, int64(o.limit)); err != nil {
		return nil, err
	}
	bounds := map[string]simulate.DumpBounds{}
	for _, text := range o.nodes {
		least, most, name, err := parseBounds(text)
		if err != nil {
			return nil, err
		}
		bounds[name] = simulate.DumpBounds{Min: int32(least), Max: int32(most)}
	}
	o.options.Bounds = bounds
	if !o.now.IsZero() {
		o.options.Now = &metav1.Time{Time: o.now}
	}
	out, err := dump.Scenario(o.options)
	if err != nil {
		return nil, &usageError{err, `see "evenkeel scenario from-dump --help"`}
	}
	out.Notes = append(missing, out.Notes...)
	return out, nil
}

// addNow adds the flag for the time of a dump.
func addNow(flags *pflag.FlagSet, now *time.Time) {
	flags.Func("now", "`TIME` at which the cluster was dumped, such as 2026-03-01T09:30:00Z; by default the newest time of its nodes and pods",
		func(text string) (err error) {
			if *now, err = time.Parse(time.RFC3339, text); err != nil {
				return errors.New("must be a time such as 2026-03-01T09:30:00Z")
			}
			return nil
		})
}

const addUsage = "FILE of workloads, as for kubectl apply: their pods are added as pending ones; may be repeated"

// addNew adds the workloads of files to a dump.
func addNew(to *simulate.Dump, open document.Open, files []string, limit int64) error {
	from := source{files: files, limit: fileSize(limit)}
	return from.eachOfFiles(open, func(title string, item document.Item) error {
		if item.Object == nil {
			return &usageError{fmt.Errorf("%s: cannot add a %s %s", title, item.APIVersion, item.Kind),
				"pods, workloads, claims and services can be added"}
		}
		if err := to.AddNew(item); err != nil {
			return &document.Invalid{Problems: []document.Problem{{File: title, Err: err}}}
		}
		return nil
	})
}

// writeScenario writes the scenario as YAML, with groups of which only the bounds are known as a
// comment. Objects are written one by one, as they may be very many.
func writeScenario(to io.Writer, from *simulate.Dumped) error {
	scenario := *from.Scenario
	scenario.Spec.Objects = []json.RawMessage{json.RawMessage(`"` + objectsHere + `"`)} // the nodes at least
	raw, err := json.Marshal(scenario)
	if err != nil {
		return err
	}
	text, err := document.ToYAML(zeros.ReplaceAll(raw, nil))
	if err != nil {
		return err
	}
	if len(from.Empty) > 0 {
		comment := "Cluster Autoscaler knows these groups too, but they have no nodes, so their templates are unknown. Replace the words\n" +
			"in capitals and remove the # to include them:\n"
		for _, g := range from.Empty {
			comment += fmt.Sprintf(emptyGroup, g.Name, g.Min, *g.Max)
		}
		const next = "\n  groupLabel:" // which follows the groups
		comment = "\n" + strings.TrimSuffix(comment, "\n")
		text = bytes.Replace(text, []byte(next), []byte(strings.ReplaceAll(comment, "\n", "\n  # ")+next), 1)
	}
	before, after, _ := bytes.Cut(text, []byte("  - "+objectsHere+"\n"))
	out := bufio.NewWriter(to)
	_, _ = out.Write(before) // Flush returns the error
	for object, err := range from.Objects(nil) {
		if err != nil {
			return err
		}
		text, err := document.ToYAML(object)
		if err != nil {
			return err
		}
		indent := "  - "
		for line := range bytes.Lines(text) {
			if len(line) > 1 {
				_, _ = out.WriteString(indent)
			}
			_, _ = out.Write(line)
			indent = "    "
		}
	}
	_, _ = out.Write(after)
	return out.Flush()
}

// objectsHere stands for the objects of a scenario.
const objectsHere = "the objects stand here"

const emptyGroup = `- name: %q
  min: %d
  max: %d
  template:
    metadata:
      labels: {topology.kubernetes.io/zone: ZONE}
    status:
      capacity: {cpu: CPU, memory: MEMORY, pods: "110"}
`

// zeros are fields without information that encoding leaves in a template.
var zeros = regexp.MustCompile(`,"(?:daemonEndpoints":\{"kubeletEndpoint":\{"Port":0\}\}|nodeInfo":\{[^{}]*\})`)
