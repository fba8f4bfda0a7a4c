package simulate

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/apportion"
	"github.com/evenkeel/evenkeel/fake"
	"github.com/evenkeel/evenkeel/internal/admission"
)

// MaxPods is the maximum number of pods of a scenario at one time.
const MaxPods = 1_000_000

var specPath = field.NewPath("spec")

// Validate returns all errors of the document itself, without reading the files it names.
func Validate(s *v1alpha1.Scenario) field.ErrorList {
	c := &checker{machines: map[string]*v1alpha1.ScenarioMachine{}, groups: sets.New[string]()}
	if s.Name == "" {
		c.Add(field.Required(field.NewPath("metadata", "name"), "a scenario has a name"))
	}
	admission.Option(&c.Checker, specPath.Child("autoscaler", "mode"), Mode(s.Spec.Autoscaler.Mode), Modes()...)
	switch version, at := s.Spec.Autoscaler.Version, specPath.Child("autoscaler", "version"); {
	case version != "" && !slices.Contains(Versions(), version):
		c.Add(field.NotSupported(at, version, Versions()))
	case version != "" && version < v136 && cmp.Or(Mode(s.Spec.Autoscaler.Mode), Linked) == Linked:
		c.Add(field.Invalid(at, version, "has no hooks to link into: mode linked needs 1.36, the others play all"))
	}
	c.options(&s.Spec.Options, specPath.Child("options"))
	if d := s.Spec.Duration; d != nil && d.Duration <= 0 {
		c.Add(field.Invalid(specPath.Child("duration"), d.Duration.String(), "must be greater than zero"))
	}
	admission.Each(specPath.Child("machines"), s.Spec.Machines, c.machine)
	admission.Each(specPath.Child("nodeGroups"), s.Spec.NodeGroups, c.nodeGroup)
	if len(s.Spec.NodeGroups) == 0 && len(s.Spec.NodeGroupsFrom) == 0 && len(s.Spec.WorkloadSpreads) == 0 {
		c.Add(field.Required(specPath.Child("nodeGroups"), "a scenario has node groups, here or in nodeGroupsFrom"))
	}
	c.sources(&s.Spec)
	c.storage(&s.Spec)
	daemonSets, workloads := sets.New[string](), sets.New[string]()
	admission.Each(specPath.Child("daemonSets"), s.Spec.DaemonSets, func(d *v1alpha1.ScenarioDaemonSet, at *field.Path) {
		c.unique(at.Child("name"), d.Name, orDefault(d.Namespace)+"/"+d.Name, daemonSets)
		c.podShape(&d.PodShape, at)
	})
	admission.Each(specPath.Child("workloads"), s.Spec.Workloads, func(w *v1alpha1.ScenarioWorkload, at *field.Path) {
		c.unique(at.Child("name"), w.Name, orDefault(w.Namespace)+"/"+w.Name, workloads)
		c.workload(w, at)
	})
	c.workloadSpreads(&s.Spec)
	return c.Errors
}

// checker collects errors and the names it has seen.
type checker struct {
	admission.Checker
	machines map[string]*v1alpha1.ScenarioMachine
	groups   sets.Set[string]
}

// unique is Named for the name of an object, which is a DNS name.
func (c *checker) unique(at *field.Path, name, key string, seen sets.Set[string]) {
	if c.Named(at, name, key, seen) {
		for _, problem := range validation.IsDNS1123Subdomain(name) {
			c.Add(field.Invalid(at, name, problem))
		}
	}
}

func (c *checker) options(o *v1alpha1.ScenarioOptions, at *field.Path) {
	if o.ScanInterval != nil && o.ScanInterval.Duration < time.Second {
		c.Add(field.Invalid(at.Child("scanInterval"), o.ScanInterval.Duration.String(), "must be at least 1s"))
	}
	c.NotNegative(at.Child("maxNodesPerScaleup"), &o.MaxNodesPerScaleup)
	c.NotNegative(at.Child("maxNodesTotal"), &o.MaxNodesTotal)
	c.Duration(at.Child("initialNodeGroupBackoffDuration"), o.InitialNodeGroupBackoffDuration)
	c.Duration(at.Child("maxNodeGroupBackoffDuration"), o.MaxNodeGroupBackoffDuration)
	c.Duration(at.Child("nodeGroupBackoffResetTimeout"), o.NodeGroupBackoffResetTimeout)
	c.Duration(at.Child("maxNodeProvisionTime"), o.MaxNodeProvisionTime)
	c.Duration(at.Child("maxNodegroupBinpackingDuration"), o.MaxNodegroupBinpackingDuration)
	c.schedulers(o, at)
	c.scaleDown(&o.ScaleDownOptions, at)
	for _, total := range []struct{ name, text string }{{"coresTotal", o.CoresTotal}, {"memoryTotal", o.MemoryTotal}} {
		if _, err := parseTotal(total.text); err != nil {
			c.Add(field.Invalid(at.Child(total.name), total.text, err.Error()))
		}
	}
	for i, text := range o.GPUTotal {
		if _, _, err := parseGPUTotal(text); err != nil {
			c.Add(field.Invalid(at.Child("gpuTotal").Index(i), text, err.Error()))
		}
	}
}

// schedulers can be bypassed only if they are allowed, as in Cluster Autoscaler.
func (c *checker) schedulers(o *v1alpha1.ScenarioOptions, at *field.Path) {
	given := func(name *string, at *field.Path) {
		if *name == "" {
			c.Add(field.Required(at, "must be the name of a scheduler"))
		}
	}
	bypassed := at.Child("bypassedSchedulerNames")
	admission.Each(bypassed, o.BypassedSchedulerNames, given)
	admission.Each(at.Child("allowedSchedulerNames"), o.AllowedSchedulerNames, given)
	for i, name := range o.BypassedSchedulerNames {
		if len(o.AllowedSchedulerNames) > 0 && !slices.Contains(o.AllowedSchedulerNames, name) {
			c.Add(field.Invalid(bypassed.Index(i), name, "must be one of allowedSchedulerNames, where these are given"))
		}
	}
}

func (c *checker) scaleDown(o *v1alpha1.ScaleDownOptions, at *field.Path) {
	c.Duration(at.Child("scaleDownUnneededTime"), o.ScaleDownUnneededTime)
	c.Duration(at.Child("scaleDownUnreadyTime"), o.ScaleDownUnreadyTime)
	c.Duration(at.Child("scaleDownDelayAfterAdd"), o.ScaleDownDelayAfterAdd)
	c.Duration(at.Child("maxBalanceDeferral"), o.MaxBalanceDeferral)
	c.Duration(at.Child("blockingSystemPodDistruptionTimeout"), o.BlockingSystemPodDistruptionTimeout)
	c.Duration(at.Child("maxPodEvictionTime"), o.MaxPodEvictionTime)
	c.NotNegative(at.Child("minReplicaCount"), &o.MinReplicaCount)
	c.threshold(at.Child("scaleDownUtilizationThreshold"), o.ScaleDownUtilizationThreshold)
	c.threshold(at.Child("scaleDownGpuUtilizationThreshold"), o.ScaleDownGPUUtilizationThreshold)
	c.AtLeastOne(at.Child("maxScaleDownParallelism"), o.MaxScaleDownParallelism)
	c.AtLeastOne(at.Child("maxDrainParallelism"), o.MaxDrainParallelism)
}

func (c *checker) threshold(at *field.Path, share json.Number) {
	if share == "" {
		return
	}
	if _, err := parseThreshold(share.String()); err != nil {
		reason := err.Error()
		if wrong, ok := errors.AsType[*apportion.InvalidError](err); ok {
			reason = wrong.Reason // the error repeats the value
		}
		c.Add(field.Invalid(at, share.String(), reason))
	}
}

// parseTotal reads "min:max" or "max"; "" is no limit.
func parseTotal(text string) (Total, error) {
	if text == "" {
		return Total{}, nil
	}
	low, high, both := strings.Cut(text, ":")
	if !both {
		low, high = "0", text
	}
	return between(low, high, 1, "must be min:max or max, whole numbers, max at least 1")
}

// parseGPUTotal reads "kind:min:max".
func parseGPUTotal(text string) (kind string, total Total, err error) {
	parts := strings.Split(text, ":")
	if len(parts) != 3 || parts[0] == "" {
		return "", Total{}, fmt.Errorf("must be kind:min:max")
	}
	total, err = between(parts[1], parts[2], 0, "must be kind:min:max, with whole numbers")
	return parts[0], total, err
}

// between reads two numbers of which the second is at least so much.
func between(low, high string, least int64, must string) (Total, error) {
	minimum, err := strconv.ParseInt(low, 10, 64)
	maximum, err2 := strconv.ParseInt(high, 10, 64)
	switch {
	case err != nil || err2 != nil || minimum < 0 || maximum < least:
		return Total{}, errors.New(must)
	case minimum > maximum:
		return Total{}, errors.New("min must not exceed max")
	}
	return Total{minimum, maximum}, nil
}

func (c *checker) machine(m *v1alpha1.ScenarioMachine, at *field.Path) {
	c.Named(at.Child("name"), m.Name, m.Name, sets.KeySet(c.machines))
	c.machines[m.Name] = m
	c.needed(m.Resources, at.Child("resources"), v1.ResourceCPU, v1.ResourceMemory)
	c.amounts(at.Child("resources"), m.Resources, admission.OfNode)
	c.amounts(at.Child("allocatable"), m.Allocatable, admission.OfNode)
	for _, name := range slices.Sorted(maps.Keys(m.Allocatable)) {
		allocatable, capacity := m.Allocatable[name], m.Resources[name]
		if _, listed := m.Resources[name]; listed && allocatable.Cmp(capacity) > 0 {
			c.Add(field.Invalid(at.Child("allocatable").Key(string(name)), allocatable.String(), "must not exceed the capacity of "+
				capacity.String()))
		}
	}
	c.price(at.Child("price"), m.Price)
	c.Add(admission.Labels(at.Child("labels"), m.Labels)...)
	c.Add(admission.Taints(at.Child("taints"), m.Taints)...)
	for _, driver := range slices.Sorted(maps.Keys(m.VolumeLimits)) {
		c.NotNegative(at.Child("volumeLimits").Key(driver), new(m.VolumeLimits[driver]))
	}
}

// needed checks amounts that are required for any pod to run.
func (c *checker) needed(amounts v1.ResourceList, at *field.Path, needed ...v1.ResourceName) {
	for _, name := range needed {
		if quantity, ok := amounts[name]; !ok || quantity.IsZero() {
			c.Add(field.Required(at.Key(string(name)), "a node without it runs no pod"))
		}
	}
}

// amounts checks handwritten resources, in which 512m of memory is a mistake.
func (c *checker) amounts(at *field.Path, amounts v1.ResourceList, of admission.Holder) {
	errs := admission.Amounts(at, amounts, of)
	if c.Add(errs...); len(errs) > 0 {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(amounts)) {
		quantity := amounts[name]
		if name == v1.ResourceCPU || quantity.MilliValue()%1000 == 0 ||
			quantity.Cmp(*resource.NewQuantity(math.MaxInt64/1000, resource.DecimalSI)) > 0 {
			continue
		}
		detail := "must be a whole number"
		if name == v1.ResourceMemory || name == v1.ResourceEphemeralStorage {
			detail += " of bytes"
			if number, ok := strings.CutSuffix(quantity.String(), "m"); ok {
				detail += fmt.Sprintf(" (did you mean %q?)", number+"Mi")
			}
		}
		c.Add(field.Invalid(at.Key(string(name)), quantity.String(), detail))
	}
}

func (c *checker) price(at *field.Path, price *resource.Quantity) {
	if price != nil && price.Sign() < 0 {
		c.Add(field.Invalid(at, price.String(), "must not be negative"))
	}
}

func (c *checker) nodeGroup(g *v1alpha1.ScenarioNodeGroup, at *field.Path) {
	c.Named(at.Child("name"), g.Name, g.Name, c.groups)
	c.groupName(at.Child("name"), g.Name)
	c.zone(g, at)
	c.NotNegative(at.Child("min"), &g.Min)
	c.size(at.Child("size"), g.Size)
	switch {
	case g.Max == nil:
		c.Add(field.Required(at.Child("max"), "how far may the group grow?"))
	case *g.Max < 0:
		c.NotNegative(at.Child("max"), g.Max)
	case *g.Max < g.Min:
		c.Add(field.Invalid(at.Child("max"), *g.Max, fmt.Sprintf("must not be below min %d", g.Min)))
	}
	switch {
	case g.Machine == "" && g.Template == nil:
		c.Add(field.Required(at.Child("machine"), "a group has a machine or a template"))
	case g.Machine != "" && g.Template != nil:
		c.Add(field.Forbidden(at.Child("template"), "not together with machine"))
	case g.Machine != "" && c.machines[g.Machine] == nil:
		c.Add(c.noMachine(at.Child("machine"), g.Machine))
	case g.Template != nil:
		capacity := at.Child("template", "status", "capacity")
		c.needed(g.Template.Status.Capacity, capacity, v1.ResourceCPU, v1.ResourceMemory, v1.ResourcePods)
		c.Add(admission.Template(at.Child("template"), g.Template)...)
	}
	c.Add(admission.Labels(at.Child("labels"), g.Labels)...)
	c.Add(admission.Taints(at.Child("taints"), g.Taints)...)
	if g.RegistersAs != "" && c.machines[g.RegistersAs] == nil {
		c.Add(c.noMachine(at.Child("registersAs"), g.RegistersAs))
	}
	c.price(at.Child("price"), g.Price)
	c.nodeTimes(&g.NodeTimes, at)
}

// maxGroupName is the maximum length of the name of a group in characters, as for any object.
const maxGroupName = 253

// groupName checks the name of a group. Clouds use various names, including paths and addresses.
func (c *checker) groupName(at *field.Path, name string) {
	if len(name) > maxGroupName {
		c.Add(field.Invalid(at, admission.Shorten(name), fmt.Sprintf("must be at most %d characters", maxGroupName)))
	} else if strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r > '~' }) || strings.TrimSpace(name) != name {
		c.Add(field.Invalid(at, name, "must be printable ASCII characters, with no blank at an end: it becomes part of the names of nodes"))
	}
}

// zone checks the zones of a group, and that no label of the group contradicts them.
func (c *checker) zone(g *v1alpha1.ScenarioNodeGroup, at *field.Path) {
	c.Add(admission.LabelValue(at.Child("zone"), g.Zone))
	zones, seen := g.Zones, sets.New[string]()
	for i, zone := range zones {
		here := at.Child("zones").Index(i)
		switch err := admission.LabelValue(here, zone); {
		case err != nil:
			c.Add(err)
		case zone == "":
			c.Add(field.Required(here, "needs the name of a zone"))
		case seen.Has(zone):
			c.Add(field.Duplicate(here, zone))
		}
		seen.Insert(zone)
	}
	switch {
	case len(zones) > 0 && g.Zone != "":
		c.Add(field.Forbidden(at.Child("zone"), "not together with zones"))
	case g.Distribution == "":
	case len(zones) == 0:
		c.Add(field.Forbidden(at.Child("distribution"), "only with zones"))
	default:
		admission.Option(&c.Checker, at.Child("distribution"), fake.Distribution(g.Distribution), fake.Distributions()...)
	}
	if len(zones) == 0 && g.Zone == "" {
		return
	}
	if len(zones) == 0 {
		zones = []string{g.Zone}
	}
	contradicts := func(labels map[string]string, add func(key, value string)) {
		for _, key := range []string{v1.LabelTopologyZone, v1.LabelFailureDomainBetaZone} {
			if value, labelled := labels[key]; labelled && !slices.Contains(zones, value) {
				add(key, value)
			}
		}
	}
	other := func(at *field.Path, labels map[string]string) {
		contradicts(labels, func(key, value string) {
			c.Add(field.Invalid(at.Key(key), value, fmt.Sprintf("contradicts zone %s of the group: leave one of the two out",
				strings.Join(zones, ", "))))
		})
	}
	other(at.Child("labels"), g.Labels)
	if g.Template != nil {
		other(at.Child("template", "metadata", "labels"), g.Template.Labels)
	}
	if m := c.machines[g.Machine]; m != nil {
		contradicts(m.Labels, func(key, value string) {
			c.Add(field.Invalid(at.Child("zone"), strings.Join(zones, ", "), fmt.Sprintf("contradicts label %s=%s of machine %s", key, value,
				m.Name)))
		})
	}
}

// noMachine lists the existing machines.
func (c *checker) noMachine(at *field.Path, name string) *field.Error {
	err := field.NotFound(at, name)
	err.Detail = "the scenario has no machines"
	if len(c.machines) > 0 {
		err.Detail = "the machines are " + few(slices.Sorted(maps.Keys(c.machines)))
	}
	return err
}

// size checks the number of nodes of a group at the start.
func (c *checker) size(at *field.Path, n int32) { c.upTo(at, n, fake.MaxNodes) }

func (c *checker) upTo(at *field.Path, n, most int32) {
	c.NotNegative(at, &n)
	if n > most {
		c.Add(field.Invalid(at, n, fmt.Sprintf("must not exceed %d", most)))
	}
}

func (c *checker) nodeTimes(t *v1alpha1.NodeTimes, at *field.Path) {
	c.Duration(at.Child("bootTime"), t.BootTime)
	c.Duration(at.Child("registrationDelay"), t.RegistrationDelay)
	c.Duration(at.Child("readyDelay"), t.ReadyDelay)
	c.Duration(at.Child("listDelay"), t.ListDelay)
	c.Duration(at.Child("terminationTime"), t.TerminationTime)
}

func (c *checker) sources(s *v1alpha1.ScenarioSpec) {
	admission.Each(specPath.Child("nodeGroupsFrom"), s.NodeGroupsFrom, func(from *v1alpha1.NodeGroupsSource, at *field.Path) {
		c.file(&from.FileSource, at)
		c.NotNegative(at.Child("min"), from.Min)
		c.NotNegative(at.Child("max"), from.Max)
		c.size(at.Child("size"), ptr.Deref(from.Size, 0))
		c.nodeTimes(&from.NodeTimes, at)
	})
	admission.Each(specPath.Child("nodesFrom"), s.NodesFrom, c.file)
	admission.Each(specPath.Child("podsFrom"), s.PodsFrom, func(from *v1alpha1.PodsSource, at *field.Path) { c.file(&from.FileSource, at) })
	admission.Each(specPath.Child("daemonSetsFrom"), s.DaemonSetsFrom, func(from *v1alpha1.FileSource, at *field.Path) {
		c.file(from, at)
		if from.Snapshot != "" {
			c.Add(field.Forbidden(at.Child("snapshot"), "a snapshot holds no daemon sets"))
		}
	})
}

func (c *checker) file(s *v1alpha1.FileSource, at *field.Path) {
	switch {
	case s.File == "" && s.Snapshot == "":
		c.Add(field.Required(at.Child("file"), "needs a file or a snapshot"))
	case s.File != "" && s.Snapshot != "":
		c.Add(field.Forbidden(at.Child("snapshot"), "not together with file"))
	}
}

func (c *checker) workload(w *v1alpha1.ScenarioWorkload, at *field.Path) {
	admission.Option(&c.Checker, at.Child("kind"), w.Kind, v1alpha1.WorkloadDeployment, v1alpha1.WorkloadReplicaSet,
		v1alpha1.WorkloadStatefulSet, v1alpha1.WorkloadJob)
	c.upTo(at.Child("replicas"), w.Replicas, MaxPods)
	c.Duration(at.Child("arrive"), &w.Arrive)
	last := w.Arrive.Duration
	for i, step := range w.Scale {
		c.upTo(at.Child("scale").Index(i).Child("replicas"), step.Replicas, MaxPods)
		last = c.notBefore(at.Child("scale").Index(i).Child("at"), step.At.Duration, last)
	}
	if w.Leave != nil {
		c.notBefore(at.Child("leave"), w.Leave.Duration, last)
	}
	c.rollouts(w, at)
	c.podShape(&w.PodShape, at)
	c.claimTemplates(w.VolumeClaimTemplates, at.Child("volumeClaimTemplates"))
}
