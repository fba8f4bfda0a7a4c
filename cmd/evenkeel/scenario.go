package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
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
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	_ "k8s.io/client-go/plugin/pkg/client/auth" // authentication plugins that a kubeconfig may name
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"github.com/evenkeel/evenkeel/internal/autoscalerstatus"
	"github.com/evenkeel/evenkeel/internal/document"
	"github.com/evenkeel/evenkeel/internal/document/live"
	"github.com/evenkeel/evenkeel/internal/simulate"
	"github.com/evenkeel/evenkeel/predicates"
)

// newScenario groups the commands about documents of kind Scenario.
func newScenario() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "scenario",
		Short:   "Write scenarios for simulate",
		Long:    "Write documents of kind Scenario, which evenkeel simulate plays.",
		GroupID: groupAnswers,
		Args:    noArguments,
		RunE: func(*cobra.Command, []string) error {
			return &usageError{errors.New("no command given"), "evenkeel scenario from-dump makes a scenario of a cluster"}
		},
	}
	cmd.AddCommand(newFromDump())
	return cmd
}

// fromDump has the flags of the command.
type fromDump struct {
	options simulate.DumpOptions
	files   []string
	added   []string
	nodes   []string
	now     time.Time
	limit   fileSize
	live    liveCluster
}

func newFromDump() *cobra.Command {
	o := fromDump{limit: document.DefaultMaxStream}
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
	flags.StringArrayVarP(&o.files, "filename", "f", nil, "file, folder or - for standard input; may be repeated")
	flags.StringVar(&o.options.Name, "name", "from-dump", "name of the scenario")
	flags.StringVar(&o.options.GroupLabel, "group-label", "",
		"node label whose value names the node group; by default the label of a known cloud")
	flags.StringArrayVar(&o.nodes, "nodes", nil, "MIN:MAX:GROUP, bounds of a node group; may be repeated")
	flags.StringArrayVar(&o.added, "add", nil, addUsage)
	addNow(flags, &o.now)
	flags.Int32Var(&o.options.Max, "max", 100, "maximum of groups whose bounds are unknown")
	flags.Var(&o.limit, "max-file-size", "refuse larger files")
	o.live.addTo(flags)
	return cmd
}

// dumped makes the scenario, and shows the progress of reading.
func (o *fromDump) dumped(cmd *cobra.Command, progress func(simulate.Progress)) (*simulate.Dumped, error) {
	if o.options.Max < 0 {
		return nil, &usageError{fmt.Errorf("--max=%d: must not be negative", o.options.Max), "it bounds the groups whose bounds are unknown"}
	}
	if !o.now.IsZero() {
		o.options.Now = &metav1.Time{Time: o.now}
	}
	if given := changed(cmd.Flags(), liveFlags...); len(given) > 0 && len(o.files) > 0 {
		return nil, &usageError{fmt.Errorf("%s does not go with %s", strings.Join(given, ", "), strings.Join(o.files, ", ")),
			"either files are read or a cluster"}
	}
	var missing []string
	dump := &simulate.Dump{}
	nodes := 0
	step := predicates.Step{Of: "objects"}
	each := func(from string, item document.Item) error {
		step.Done++
		step.Doing = "reading " + from
		progress(simulate.Progress{Step: step})
		if item.Kind == "Node" {
			nodes++
		}
		return dump.Add(item)
	}
	var err error
	from, remedy := strings.Join(o.files, ", "), "the output of kubectl get nodes says what the node groups are"
	if len(o.files) > 0 {
		err = o.eachObject(inputsOf(cmd).open, each)
	} else {
		from, remedy = "the cluster", "its nodes say what the node groups are"
		missing, err = o.live.eachObject(cmd.Context(), each)
	}
	switch {
	case err != nil:
		return nil, err
	case nodes == 0:
		return nil, &usageError{fmt.Errorf("%s: holds no Node", from), remedy}
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
	out, err := dump.Scenario(o.options)
	if err != nil {
		return nil, &usageError{err, `see "evenkeel scenario from-dump --help"`}
	}
	out.Notes = append(missing, out.Notes...)
	return out, nil
}

// eachObject reads the objects of all files.
func (o *fromDump) eachObject(open document.Open, each func(from string, item document.Item) error) error {
	for i, name := range o.files {
		if name == "-" && slices.Contains(o.files[:i], "-") {
			return &usageError{errors.New("stdin is named twice, but can be read only once"), "name it once"}
		}
		if err := open.Objects(name, document.StreamOptions{MaxSize: int64(o.limit)}, each); err != nil {
			return err
		}
	}
	return nil
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
	from := fromDump{files: files, limit: fileSize(limit)}
	return from.eachObject(open, func(title string, item document.Item) error {
		if item.Object == nil {
			return &usageError{fmt.Errorf("%s: cannot add a %s %s", title, item.APIVersion, item.Kind),
				"pods, workloads, claims and services can be added"}
		}
		return to.AddNew(item)
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

// liveCluster names a cluster to read instead of files.
type liveCluster struct {
	kubeconfig, context, namespace string
	status                         string // the name of the ConfigMap if it is not the usual one
}

// liveFlags have no effect if files are read.
var liveFlags = []string{"kubeconfig", "context", "namespace"}

func (l *liveCluster) addTo(flags *pflag.FlagSet) {
	flags.StringVar(&l.kubeconfig, "kubeconfig", "",
		"kubeconfig file of the cluster to read if no file is given; by default the same as for kubectl")
	flags.StringVar(&l.context, "context", "", "context of the kubeconfig")
	flags.StringVar(&l.namespace, "namespace", "kube-system", "namespace in which Cluster Autoscaler keeps its ConfigMap")
}

// A readable is a resource that a scenario is made from.
type readable struct {
	live.Resource
	// without describes the consequence if the resource may not be read; empty: the resource is
	// required.
	without string
	// optional resources are not part of Kubernetes itself.
	optional bool
}

// readables are read in this order, which is the order of a dump as documented.
func (l *liveCluster) readables() []readable {
	core := func(name, selector, without string) readable {
		return readable{live.Resource{Name: name, Path: "/api/v1/" + name, FieldSelector: selector}, without, false}
	}
	group := func(name, group, without string) readable {
		return readable{live.Resource{Name: name + "." + group, Path: "/apis/" + group + "/v1/" + name}, without, false}
	}
	autoscaling := func(name, version, without string) readable {
		const group = "autoscaling.x-k8s.io"
		return readable{live.Resource{Name: name + "." + group, Path: "/apis/" + group + "/" + version + "/" + name}, without, true}
	}
	const storage, apps = "storage.k8s.io", "apps"
	status := cmp.Or(l.status, autoscalerstatus.ConfigMap)
	return []readable{
		core("nodes", "", ""),
		core("pods", "status.phase!=Succeeded,status.phase!=Failed", ""),
		group("daemonsets", apps, "daemon sets are taken from their pods"),
		group("statefulsets", apps, "no claims are made for pods that have none yet"),
		core("services", "", "pods without a controller are not spread by default"),
		core("namespaces", "", "affinity to pods of namespaces with a label finds none"),
		core("persistentvolumeclaims", "", "pods with volumes run nowhere"),
		core("persistentvolumes", "", "no pod is kept in the zone of its volumes"),
		group("storageclasses", storage, "pods that wait for a volume run nowhere"),
		group("csinodes", storage, "nodes take any number of volumes"),
		group("csidrivers", storage, "no driver is short of capacity"),
		group("csistoragecapacities", storage, "no driver is short of capacity"),
		group("volumeattachments", storage, "nodes take as many volumes as their pods leave"),
		autoscaling("capacitybuffers", "v1beta1", "no room is kept free for buffers"),
		autoscaling("capacityquotas", "v1alpha1", "no quota over capacity counts"),
		autoscaling("provisioningrequests", "v1", "no room is kept for provisioning requests"),
		core("podtemplates", "", "buffers and provisioning requests of pod templates get no room"),
		group("poddisruptionbudgets", "policy", "scale-down moves pods that budgets would protect"),
		group("priorityclasses", "scheduling.k8s.io", "only pods that tell their own priority have one"),
		{live.Resource{
			Name: "configmap " + l.namespace + "/" + status,
			Path: "/api/v1/namespaces/" + l.namespace + "/configmaps/" + status,
		}, "Cluster Autoscaler's bounds of node groups are not known", false},
	}
}

// eachObject reads the cluster. Optional resources that are missing are reported as notes.
func (l *liveCluster) eachObject(ctx context.Context, each func(from string, item document.Item) error) (notes []string, err error) {
	return l.read(ctx, l.readables(), each)
}

// read reads some resources of the cluster.
func (l *liveCluster) read(ctx context.Context, of []readable,
	each func(from string, item document.Item) error) (notes []string, err error) {
	none := &usageError{errors.New("no file given and no cluster found"),
		"name files or a folder, or - for standard input, or give --kubeconfig for the cluster itself"}
	config, err := kubectlConfig("", l.kubeconfig, l.context, none)
	if err != nil {
		return nil, err
	}
	reader, err := live.New(rest.AddUserAgent(config, "evenkeel-scenario"))
	if err != nil {
		return nil, &usageError{err, "--kubeconfig says how the cluster is reached"}
	}
	for _, r := range of {
		for item, err := range reader.Objects(ctx, r.Resource) {
			switch {
			case apierrors.IsNotFound(err) && r.without != "": // the server does not have this resource, so there are no objects
			case apierrors.IsForbidden(err) && r.optional && !reader.Serves(ctx, r.Resource): // nobody was given a right to it
			case apierrors.IsForbidden(err) && r.without != "":
				notes = append(notes, fmt.Sprintf("%v: %s", err, r.without))
			case apierrors.IsForbidden(err):
				return nil, fmt.Errorf("%w (nodes and pods are needed: give the user the right to list them in all namespaces)", err)
			case err != nil:
				return nil, err
			default:
				if err := each(r.Name+" of "+config.Host, item); err != nil {
					return nil, err
				}
			}
		}
	}
	return notes, nil
}
