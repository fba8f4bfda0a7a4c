package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"

	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/cloudprovider"
	"github.com/evenkeel/evenkeel/cmd/evenkeel/internal/printing"
	"github.com/evenkeel/evenkeel/internal/autoscaler"
	"github.com/evenkeel/evenkeel/internal/autoscalerstatus"
	"github.com/evenkeel/evenkeel/internal/doctor"
	"github.com/evenkeel/evenkeel/internal/document"
	"github.com/evenkeel/evenkeel/internal/document/live"
	"github.com/evenkeel/evenkeel/internal/pending"
	"github.com/evenkeel/evenkeel/internal/simulate"
	"github.com/evenkeel/evenkeel/nodegroupset"
	"github.com/evenkeel/evenkeel/nodegroupset/template"
)

// newDoctor builds the command that says what keeps node groups from being even, and the least that helps.
func newDoctor() *cobra.Command {
	var output printing.Flags
	c := checkup{source: source{limit: document.DefaultMaxStream}}
	cmd := &cobra.Command{
		Use:   "doctor [FILE...|-]",
		Short: "Show what keeps node groups from being even, and the least that helps",
		Long: `Show what keeps the node groups of a cluster from being even: how Cluster Autoscaler is started, which groups it takes for similar
and why not, what its status says, and what that costs here. At the end stands the least that helps: flags of Cluster Autoscaler,
evenkeel as its expander, evenkeel as its provider too, or evenkeel linked into it. Often that is Cluster Autoscaler alone.

Without a FILE the cluster itself is read, as by kubectl: with --kubeconfig, $KUBECONFIG or ~/.kube/config, or in a pod by its
service account. Nothing is written to it. A FILE contains lists or objects as kubectl get -o json or -o yaml prints them; a folder
stands for the files in it, "-" is standard input. Have nodes, pods and Deployments in them, and Cluster Autoscaler's status:
  kubectl get nodes,pods,daemonsets,deployments,configmaps,pvc,pv,sc -A -o yaml

With -o html it is a page that compares what --simulate plays.

The exit code is 0 if nothing was found, 1 if something was, and 2 if a flag or a file is wrong.`,
		Example: `  evenkeel doctor --context production
  evenkeel doctor dump.yaml status.yaml -o wide
  evenkeel doctor dump.yaml status.yaml -o html > doctor.html
  kubectl get nodes,pods,daemonsets,deployments,configmaps,pvc,pv,sc -A -o yaml | evenkeel doctor -`,
		GroupID: groupAnswers,
		RunE: promptly(func(cmd *cobra.Command, args []string) error {
			silence()
			defer collectOften()()
			c.files = slices.Concat(c.files, args)
			printer := output.Printer(cmd)
			var observation *doctor.Observation
			meter := newMeter(cmd.ErrOrStderr(), clock.RealClock{})
			err := interruptibly(cmd.Context(), func() (err error) {
				observation, err = c.observe(cmd, meter.reading)
				return err
			})
			meter.end()
			if err != nil {
				return err
			}
			diagnosis, err := doctor.Diagnose(observation)
			if err != nil {
				return &usageError{err, "a node says what a new one looks like"}
			}
			if err := c.show(cmd, printer, diagnosis, meter); err != nil {
				return err
			}
			if len(diagnosis.Status.Findings) > 0 {
				return errReported
			}
			return nil
		}),
	}
	flags := cmd.Flags()
	flags.StringVar(&c.snapshot, "snapshot", "",
		"debugging snapshot of Cluster Autoscaler: the templates that it compares, also of groups without nodes")
	flags.BoolVar(&c.simulated, "simulate", false,
		"also play the cluster's own pods, all pending, on its groups without nodes: with Cluster Autoscaler alone and with evenkeel")
	c.addTo(flags, &c.options)
	output.AddTo(cmd, printing.Table, printing.Wide, printing.JSON, printing.YAML, printing.HTML)
	return cmd
}

// checkup reads a cluster or its dump.
type checkup struct {
	source
	options     simulate.DumpOptions
	snapshot    string // file
	simulated   bool
	dump        simulate.Dump
	observation doctor.Observation
	statuses    []*v1.ConfigMap
	priorities  *v1.ConfigMap // of the strategy priority
}

// prioritiesConfigMap is the ConfigMap of the strategy priority.
const prioritiesConfigMap = "cluster-autoscaler-priority-expander"

// show plays the pods if that is wanted, and prints the result.
func (c *checkup) show(cmd *cobra.Command, printer *printing.Printer, diagnosis *doctor.Diagnosis, meter *meter) (err error) {
	var comparison *v1alpha1.ScenarioComparison
	if c.simulated || printer.HTML() {
		comparison, err = c.simulate(cmd.Context(), diagnosis, meter)
		meter.end()
		if err != nil {
			return err
		}
	}
	if printer.HTML() {
		return writeComparison(cmd.OutOrStdout(), comparison, c.observation.GroupsProblem)
	}
	return printer.Result(diagnosis, diagnosisParts(printer.Wide(), &diagnosis.Status)...)
}

// observe reads all that is known of the cluster.
func (c *checkup) observe(cmd *cobra.Command, progress func(simulate.Progress)) (*doctor.Observation, error) {
	c.observation.Now = c.now
	var err error
	cluster := func(ctx context.Context, each eachObject) ([]string, error) {
		return c.eachOfCluster(ctx, cmd.Flags().Changed("namespace"), each)
	}
	if c.observation.Missing, err = c.read(cmd, progress, c.add, cluster); err != nil {
		return nil, err
	}
	if err := c.readStatus(); err != nil {
		return nil, err
	}
	if err := c.readGroups(cmd.Context()); err != nil {
		return nil, err
	}
	if problem := c.observation.GroupsProblem; problem != "" && cmd.Flags().Changed("group-label") {
		return nil, &usageError{errors.New("--group-label: " + problem), "without it, the nodes say what their groups are"}
	}
	if c.snapshot == "" {
		return &c.observation, nil
	}
	return &c.observation, c.readSnapshot(inputsOf(cmd).open)
}

// add adds one object to what is known of the cluster.
func (c *checkup) add(item document.Item) error {
	switch object := item.Object.(type) {
	case *appsv1.Deployment:
		c.observation.AddWorkload(object)
		return nil
	case *v1.ConfigMap:
		if object.Name == prioritiesConfigMap {
			c.priorities = object
		}
		if autoscalerstatus.Holds(object) {
			c.statuses = append(c.statuses, object)
		}
		return nil
	case *document.ProvisioningRequest:
		if object.Spec.ProvisioningClassName == autoscaler.AtomicClass {
			request := doctor.Request{Name: object.Namespace + "/" + object.Name}
			for i := range object.Spec.PodSets {
				request.Pods += int(object.Spec.PodSets[i].Count)
			}
			c.observation.Requests = append(c.observation.Requests, request)
		}
	case *appsv1.StatefulSet, *v1.Pod:
		c.observation.AddWorkload(object)
	case *v1.Node:
		c.observation.Nodes = append(c.observation.Nodes, object)
		if pool := object.Labels[nodegroupset.KarpenterPool]; pool != "" && !slices.Contains(c.observation.Pools, pool) {
			c.observation.Pools = append(c.observation.Pools, pool)
		}
	}
	return c.dump.Add(item)
}

// eachOfCluster reads the cluster itself: Deployments first, as the flags of Cluster Autoscaler say where its status is, unless a flag
// of the doctor does.
func (c *checkup) eachOfCluster(ctx context.Context, namespaced bool, each eachObject) (missing []string, err error) {
	deployments := readable{live.Resource{Name: "deployments.apps", Path: "/apis/apps/v1/deployments"},
		"how Cluster Autoscaler is started is seen on its pods only", false}
	missing, err = c.live.read(ctx, []readable{deployments}, each)
	if err != nil {
		return nil, err
	}
	status := c.observation.StatusConfigMap()
	c.live.status = status.Name
	if !namespaced {
		c.live.namespace = status.Namespace
	}
	if by := c.observation.Autoscaler(); by != nil && slices.Contains(by.Flags.Expanders(by.Minor), "priority") {
		priorities := live.Resource{Name: "configmap " + status.Namespace + "/" + prioritiesConfigMap,
			Path: "/api/v1/namespaces/" + status.Namespace + "/configmaps/" + prioritiesConfigMap}
		lacking, err := c.live.read(ctx, []readable{{priorities, "the priorities of node groups are not known", false}}, each)
		if err != nil {
			return nil, err
		}
		missing = append(missing, lacking...)
	}
	more, err := c.live.eachObject(ctx, each)
	if c.now.IsZero() {
		c.observation.Now = now()
	}
	return append(missing, more...), err
}

// readStatus reads the status of Cluster Autoscaler, of the ConfigMap that its flags name, if possible in the namespace that they name.
func (c *checkup) readStatus() error {
	wanted := c.observation.StatusConfigMap()
	at := slices.IndexFunc(c.statuses, func(m *v1.ConfigMap) bool { return m.Name == wanted.Name && m.Namespace == wanted.Namespace })
	if at < 0 {
		at = slices.IndexFunc(c.statuses, func(m *v1.ConfigMap) bool { return m.Name == wanted.Name })
	}
	if at < 0 {
		return nil
	}
	found := c.statuses[at]
	status, err := autoscalerstatus.Parse(found.Data[autoscalerstatus.Key])
	if err != nil {
		c.observation.StatusProblem = fmt.Sprintf("ConfigMap %s/%s: %v", found.Namespace, found.Name, err)
		return nil
	}
	c.observation.Status = status
	return c.dump.Add(document.Item{APIVersion: "v1", Kind: "ConfigMap", Namespace: found.Namespace, Name: found.Name, Object: found})
}

// readGroups makes the node groups of the nodes. The first node of a group stands for it, whatever else is in the cluster.
func (c *checkup) readGroups(ctx context.Context) error {
	dumped := c.scenario()
	if dumped == nil {
		return nil
	}
	c.observation.Label = dumped.Scenario.Spec.GroupLabel
	c.observation.Fixed = dumped.Fixed
	moment, err := simulate.AtStart(ctx, &document.Document{File: "the cluster", Number: 1, Kind: v1alpha1.KindScenario, Name: c.options.Name,
		Object: dumped.Scenario}, simulate.Files{Objects: dumped.Items})
	if err != nil {
		return err
	}
	pods := map[string][]*v1.Pod{} // by node
	for _, n := range moment.Nodes {
		pods[n.Node.Name] = n.Pods
	}
	for _, g := range dumped.Scenario.Spec.NodeGroups {
		if slices.Contains(dumped.Fixed, g.Name) {
			continue
		}
		nodes := dumped.Members[g.Name]
		t, err := template.OfNodes(g.Name, nodes, func(node string) []*v1.Pod { return pods[node] })
		if err != nil {
			return err
		}
		c.observation.Groups = append(c.observation.Groups, doctor.Group{
			Name: g.Name, Known: dumped.Known[g.Name], Nodes: nodes, Zones: g.Zones, Template: t,
		})
	}
	for _, g := range dumped.Empty {
		c.observation.Groups = append(c.observation.Groups, doctor.Group{Name: g.Name, Known: g.Name})
	}
	c.observation.Pending, err = pending.Spreads(moment.Checker, pending.OfRound(moment.Nodes, moment.Pending, moment.Groups))
	return err
}

// readSnapshot reads the templates that Cluster Autoscaler compares, of which some groups may be known by nothing else.
func (c *checkup) readSnapshot(open document.Open) error {
	return open.Each(c.snapshot, func(title string, r io.Reader, _ bool) error {
		s, err := document.ReadSnapshot(title, r, document.StreamOptions{MaxSize: int64(c.limit)})
		if err != nil {
			return err
		}
		for _, name := range slices.Sorted(maps.Keys(s.Templates)) {
			at := slices.IndexFunc(c.observation.Groups, func(g doctor.Group) bool { return g.Known == name || g.Known == "" && g.Name == name })
			if at < 0 {
				at = len(c.observation.Groups)
				c.observation.Groups = append(c.observation.Groups, doctor.Group{Name: name, Known: name})
			}
			c.observation.Groups[at].Template = &cloudprovider.Template{Node: s.Templates[name].Node, Pods: s.Templates[name].Pods}
		}
		return nil
	})
}

// scenario makes a scenario of the dump; nil if it is not known which nodes are of one group, and then that is a finding.
func (c *checkup) scenario() *simulate.Dumped {
	c.options.Name, c.options.Max = "doctor", 1000
	dumped, err := c.dump.Scenario(c.options)
	if label := c.labelOfStatus(); err != nil && c.options.GroupLabel == "" && label != "" {
		c.options.GroupLabel = label
		dumped, err = c.dump.Scenario(c.options)
	}
	if err != nil {
		c.observation.GroupsProblem = err.Error()
		return nil
	}
	return dumped
}

// labelOfStatus is the first label, by name, whose values are the names of all groups with nodes in the status; empty if
// there is none.
func (c *checkup) labelOfStatus() string {
	values := map[string]map[string]bool{} // by label
	for _, n := range c.observation.Nodes {
		for key, value := range n.Labels {
			if values[key] == nil {
				values[key] = map[string]bool{}
			}
			values[key][value] = true
		}
	}
	if c.observation.Status == nil {
		return ""
	}
	for _, key := range slices.Sorted(maps.Keys(values)) {
		named := 0
		for _, g := range c.observation.Status.Groups {
			if g.Ready == 0 {
				continue
			}
			if !values[key][path.Base(g.Name)] {
				named = 0
				break
			}
			named++
		}
		if named > 0 {
			return key
		}
	}
	return ""
}
