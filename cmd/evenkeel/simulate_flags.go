package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/expander"
	"github.com/evenkeel/evenkeel/fake"
	"github.com/evenkeel/evenkeel/internal/autoscaler"
	"github.com/evenkeel/evenkeel/internal/document"
	"github.com/evenkeel/evenkeel/internal/grouppolicy"
	"github.com/evenkeel/evenkeel/internal/simulate"
	"github.com/evenkeel/evenkeel/internal/spelling"
	"github.com/evenkeel/evenkeel/nodegroupset"
	"github.com/evenkeel/evenkeel/predicates"
)

// overrides are Cluster Autoscaler's flags; a given one overrides the same option of every
// scenario.
type overrides struct {
	flags   *pflag.FlagSet
	given   v1alpha1.ScenarioSpec // has the settings
	similar nodegroupset.Options
	nodes   []string
	added   []string
	objects []json.RawMessage // of the files of added
	fails   []string
	outages []v1alpha1.Outage // of fails
	pod     string
	now     time.Time

	policiesFile string
	policies     []v1alpha1.NodeGroupSetPolicy // of that file
	scheduler    schedulerConfig
}

func (o *overrides) addTo(flags *pflag.FlagSet) {
	o.flags = flags
	options := &o.given.Options
	options.BalanceSimilarNodeGroups, options.SpreadAwareSplit, options.ExpendablePodsPriorityCutoff = new(bool), new(bool), new(int32)
	flags.StringVar(&o.given.Autoscaler.Mode, autoscalerMode, "", "which autoscaler decides: "+modeNames()+
		" (linked unless the scenario says otherwise)")
	flags.StringVar(&o.given.Autoscaler.Version, autoscalerVersion, "", "release of Cluster Autoscaler: "+
		strings.Join(simulate.Versions(), ", ")+" (the newest unless the scenario says otherwise)")
	flags.BoolVar(&options.SalvoScaleUp, "salvo-scale-up", false, "scale up several times in one loop")
	flags.BoolVar(options.BalanceSimilarNodeGroups, "balance-similar-node-groups", true, "balance node groups similar to the chosen one")
	flags.BoolVar(options.SpreadAwareSplit, "spread-aware-split", true, "plan nodes for pods with a topology spread in all zones at once")
	flags.StringVar(&options.Expander, "expander", "", "strategies that choose between options, comma-separated: "+
		strings.Join(expander.Names(), ", "))
	addSimilarityFlags(flags, &o.similar)
	flags.Int32Var(&options.MaxNodesTotal, "max-nodes-total", 0, "maximum number of all nodes; 0 means no limit")
	flags.Int32Var(&options.MaxNodesPerScaleup, "max-nodes-per-scaleup", 0, "maximum number of nodes of one round")
	flags.Int32Var(options.ExpendablePodsPriorityCutoff, "expendable-pods-priority-cutoff", autoscaler.DefaultExpendablePriorityCutoff,
		"pods of lower priority do not cause a scale-up")
	flags.StringSliceVar(&options.BypassedSchedulerNames, "bypassed-scheduler-names", nil,
		"other schedulers whose pods count before they are marked unschedulable")
	flags.StringSliceVar(&options.AllowedSchedulerNames, "allowed-scheduler-names", nil, "schedulers whose pods count")
	flags.StringVar(&o.policiesFile, "node-group-policies", "", "FILE of NodeGroupPolicies, instead of the policies of the scenario")
	o.scheduler.addTo(flags, "")
	flags.StringArrayVar(&o.added, "add", nil, addUsage)
	flags.StringArrayVar(&o.fails, "fail-zone", nil, "ZONE[@FROM[+FOR]], the nodes of a zone fail: eu-west-1b@5m+10m; may be repeated")
	addNow(flags, &o.now)
	flags.StringVar(&o.pod, "explain-pod", "", "NAME or NAMESPACE/NAME, also show what was tried for this pod, and why groups do not take it")
	flags.StringArrayVar(&o.nodes, "nodes", nil, "MIN:MAX:GROUP, bounds of a node group; may be repeated")
}

// read reads the files that flags name; limit is the size in bytes of those of --add, 0 for the default.
func (o *overrides) read(open document.Open, limit int64) error {
	var added simulate.Dump
	if err := addNew(&added, open, o.added, limit); err != nil {
		return err
	}
	for object, err := range added.Objects() {
		if err != nil {
			return err
		}
		o.objects = append(o.objects, object)
	}
	for _, text := range o.fails {
		outage, err := parseOutage(text)
		if err != nil {
			return &usageError{fmt.Errorf("--fail-zone=%s: %w", text, err), "as in --fail-zone=eu-west-1b@5m+10m, from 5 minutes on for 10 minutes"}
		}
		o.outages = append(o.outages, outage)
	}
	if err := o.scheduler.read(open); err != nil || o.policiesFile == "" {
		return err
	}
	declared, _, err := grouppolicy.Read(open, o.policiesFile)
	if err == nil {
		o.policies = declared.Spec.Sets
	}
	return err
}

// applyTo sets the options of the given flags in a scenario.
func (o *overrides) applyTo(s *v1alpha1.Scenario) {
	s.Spec.Objects = append(slices.Clip(s.Spec.Objects), o.objects...)
	for _, outage := range o.outages {
		outage.Zones = []string{simulate.FullZone(s, outage.Zones[0])}
		s.Spec.Faults.Outages = append(slices.Clip(s.Spec.Faults.Outages), outage)
	}
	if !o.now.IsZero() {
		s.Spec.Now = &metav1.Time{Time: o.now}
	}
	if o.policiesFile != "" {
		s.Spec.Policies = o.policies
	}
	given := o.given
	options, similar := &given.Options, &o.similar
	options.BalancingIgnoreLabels = slices.Concat(s.Spec.Options.BalancingIgnoreLabels,
		similar.IgnoreLabels) // in addition to those of the scenario
	options.DisabledLabelPacks = slices.Concat(s.Spec.Options.DisabledLabelPacks, similar.DisabledPacks)
	options.BalancingLabels = similar.Labels
	for option, ratio := range map[*json.Number]*nodegroupset.Ratio{
		&options.MemoryDifferenceRatio:         similar.MemoryDifferenceRatio,
		&options.MaxAllocatableDifferenceRatio: similar.MaxAllocatableDifferenceRatio,
		&options.MaxFreeDifferenceRatio:        similar.MaxFreeDifferenceRatio,
	} {
		if ratio != nil {
			*option = json.Number(ratio.String())
		}
	}
	o.flags.Visit(func(f *pflag.Flag) {
		overridden, err := findSetting(f.Name)
		if err != nil {
			return
		}
		value := overridden.in(&given)
		if value.IsZero() && value.Kind() == reflect.String {
			return // nothing is said
		}
		overridden.in(&s.Spec).Set(value)
	})
	if o.scheduler.object != nil {
		s.Spec.Options.SchedulerConfig = &v1alpha1.SchedulerConfig{Object: o.scheduler.object}
	}
}

// attribute returns a problem of a scenario as one of the flag that set the field, if one did.
func (o *overrides) attribute(problem document.Problem, d *document.Document) document.Problem {
	var wrong *field.Error
	scenario, ok := d.Object.(*v1alpha1.Scenario)
	if !ok || !errors.As(problem.Err, &wrong) {
		return problem
	}
	for path, flag := range o.byField(scenario) {
		if rest, within := strings.CutPrefix(wrong.Field, path); within && (rest == "" || rest[0] == '.' || rest[0] == '[') {
			return document.Problem{File: flag, Err: problem.Err}
		}
	}
	return problem
}

// byField are the flags by the paths of the fields that they set in a scenario.
func (o *overrides) byField(s *v1alpha1.Scenario) map[string]string {
	flags := map[string]string{}
	last := func(path string, length int, flag string, values ...string) { // of a list, which may have more of the scenario itself
		for i, value := range values {
			flags[fmt.Sprintf("%s[%d]", path, length-len(values)+i)] = "--" + flag + "=" + value
		}
	}
	o.flags.Visit(func(f *pflag.Flag) {
		set, err := findSetting(f.Name)
		if err != nil {
			return
		}
		if list, ok := f.Value.(pflag.SliceValue); ok {
			last(set.path, set.in(&s.Spec).Len(), f.Name, list.GetSlice()...)
			return
		}
		flags[set.path] = "--" + f.Name + "=" + f.Value.String()
	})
	last("spec.faults.outages", len(s.Spec.Faults.Outages), "fail-zone", o.fails...)
	if o.policiesFile != "" {
		flags["spec.policies"] = "--node-group-policies=" + o.policiesFile
	}
	return flags
}

// schedulerConfigFlag names a file with a KubeSchedulerConfiguration.
const schedulerConfigFlag = "scheduler-config-file"

// schedulerConfig is the file of that flag.
type schedulerConfig struct {
	name   string
	object []byte // JSON; nil until it was read, or without a file
}

// addTo adds the flag; condition says where it counts.
func (c *schedulerConfig) addTo(flags *pflag.FlagSet, condition string) {
	flags.StringVar(&c.name, schedulerConfigFlag, "",
		condition+"FILE of a KubeSchedulerConfiguration with one profile, such as one with default spread constraints")
}

// maxSchedulerConfig is the greatest size of such a file in bytes.
const maxSchedulerConfig = 1 << 20

// read reads the file, if there is one.
func (c *schedulerConfig) read(open document.Open) error {
	if c.name == "" {
		return nil
	}
	text, err := open.Text(c.name, maxSchedulerConfig)
	if err == nil {
		err = predicates.CheckConfiguration(text)
	}
	if err == nil {
		c.object, err = yaml.YAMLToJSON(text)
	}
	if err != nil {
		return &usageError{fmt.Errorf("invalid argument %q for \"--%s\" flag: %w", c.name, schedulerConfigFlag, err),
			"a file has one KubeSchedulerConfiguration"}
	}
	return nil
}

// bound sets the bounds of the node groups that --nodes names.
func (o *overrides) bound(setup *simulate.Setup) error {
	setup.ExplainPod = o.pod
	for _, text := range o.nodes {
		least, most, name, err := parseBounds(text)
		if err != nil {
			return err
		}
		at := slices.IndexFunc(setup.Cloud.Groups, func(g fake.Group) bool { return g.ID == name })
		if at < 0 {
			return &usageError{fmt.Errorf("--nodes=%s: scenario %s has no node group %q", text, setup.Name, name),
				"groups are named as in the scenario"}
		}
		setup.Cloud.Groups[at].MinSize, setup.Cloud.Groups[at].MaxSize = least, most
	}
	return nil
}

// missing is the error if no scenario has the pod of --explain-pod.
func (o *overrides) missing(reports []*v1alpha1.ScenarioReport) error {
	if o.pod == "" {
		return nil
	}
	var names []string
	for _, r := range reports {
		if r.Status.Story != nil {
			return nil
		}
		for i := range r.Status.Pods {
			names = append(names, r.Status.Pods[i].Name)
		}
	}
	hint := "pods are named as in -o json"
	if nearest := spelling.Nearest(o.pod, names); len(nearest) > 0 {
		hint = "did you mean " + strings.Join(nearest, " or ") + "?"
	}
	return &usageError{fmt.Errorf("--explain-pod=%s: there is no such pod", o.pod), hint}
}

// parseOutage reads ZONE[@FROM[+FOR]].
func parseOutage(text string) (v1alpha1.Outage, error) {
	zone, times, timed := strings.Cut(text, "@")
	out := v1alpha1.Outage{Zones: []string{zone}}
	if zone == "" {
		return out, errors.New("names no zone")
	}
	if !timed {
		return out, nil
	}
	from, length, ends := strings.Cut(times, "+")
	var err error
	if out.From.Duration, err = time.ParseDuration(from); err != nil || out.From.Duration < 0 {
		return out, fmt.Errorf("%q must be a duration, such as 5m", from)
	}
	if ends {
		lasts, err := time.ParseDuration(length)
		if err != nil || lasts <= 0 {
			return out, fmt.Errorf("%q must be a duration above 0, such as 10m", length)
		}
		out.Until = &metav1.Duration{Duration: out.From.Duration + lasts}
	}
	return out, nil
}

// parseBounds reads a value of --nodes.
func parseBounds(text string) (least, most int, name string, err error) {
	wrong := func(format string, args ...any) error {
		return &usageError{fmt.Errorf("--nodes=%s: "+format, slices.Insert(args, 0, any(text))...), "as in --nodes=0:10:" + cmp.Or(name, "web")}
	}
	parts := strings.SplitN(text, ":", 3)
	if len(parts) != 3 || parts[2] == "" {
		return 0, 0, "", wrong("must be MIN:MAX:GROUP")
	}
	name = parts[2]
	for i, to := range []*int{&least, &most} {
		n, err := strconv.ParseUint(parts[i], 10, 31)
		if err != nil {
			return 0, 0, "", wrong("%q must be a number from 0 to %d", parts[i], math.MaxInt32)
		}
		*to = int(n)
	}
	if least > most {
		return 0, 0, "", wrong("the minimum must not be above the maximum")
	}
	return least, most, name, nil
}
