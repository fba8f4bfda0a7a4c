package simulate

import (
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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/apportion"
	"github.com/evenkeel/evenkeel/backoff"
	"github.com/evenkeel/evenkeel/expander"
	"github.com/evenkeel/evenkeel/internal/admission"
	"github.com/evenkeel/evenkeel/internal/autoscaler"
	"github.com/evenkeel/evenkeel/internal/autoscaler/removal"
	"github.com/evenkeel/evenkeel/internal/grouppolicy"
	"github.com/evenkeel/evenkeel/nodegroupset"
	"github.com/evenkeel/evenkeel/steering"
	"github.com/evenkeel/evenkeel/zonalshift"
)

const gib = 1 << 30

var policiesPath = specPath.Child("policies")

// Options are those of the autoscaler. The zero value has Cluster Autoscaler's defaults, except that
// similar groups are balanced and that cores and memory are not limited.
type Options struct {
	// Options are what Cluster Autoscaler and evenkeel, linked or as a sidecar, both go by.
	steering.Options
	MaxNodesTotal      int  // 0 means no limit
	MaxNodesPerScaleUp int  // 0 means no limit
	DisableSpreadSplit bool // turns the plan for pods with a topology spread off in a linked build
	// Quotas are the limits over several groups, but for the number of all nodes.
	Quotas        []autoscaler.Quota
	StartupTaints []string
}

// Total bounds a resource of the whole cluster. Scale-down keeps the minimum.
type Total struct{ Min, Max int64 }

// scalerOptions converts the options of the document, already checked by Validate.
func scalerOptions(s *v1alpha1.ScenarioSpec) (Options, field.ErrorList) {
	o, at := &s.Options, specPath.Child("options")
	var c admission.Checker
	out := Options{
		Options: steering.Options{
			NotBalanced: !ptr.Deref(o.BalanceSimilarNodeGroups, true),
			Backoff: backoff.Options{
				Initial: durationOr(o.InitialNodeGroupBackoffDuration, 0), Max: durationOr(o.MaxNodeGroupBackoffDuration, 0),
				Reset: durationOr(o.NodeGroupBackoffResetTimeout, 0),
			},
			MaxNodeProvisionTime: durationOr(o.MaxNodeProvisionTime, 0),
			MaxBalanceDeferral:   durationIfGiven(o.MaxBalanceDeferral),
		},
		MaxNodesTotal:      int(o.MaxNodesTotal),
		MaxNodesPerScaleUp: int(o.MaxNodesPerScaleup),
		DisableSpreadSplit: !ptr.Deref(o.SpreadAwareSplit, true),
		StartupTaints:      o.StartupTaints,
	}
	compared, errs := similarity(o, at)
	c.Add(errs...)
	out.Similarity = nodegroupset.ParseGroupLabel(s.GroupLabel).Ignoring(compared)
	var err *field.Error
	out.ZonalShift, err = zonalShiftOptions(&o.ZonalShiftOptions, at)
	c.Add(err)
	out.Similarity.Policies, errs = grouppolicy.Convert(s.Policies, policiesPath)
	c.Add(errs...)
	out.Chain, err = expanderChain(o, at)
	c.Add(err)
	return out, c.Errors
}

// readQuotas makes the limits over several groups: those of the whole cluster, of CapacityQuotas, and of the document.
func (l *loader) readQuotas() {
	o, to := &l.spec.Options, &l.setup.Options
	add := func(name, resource string, t Total) {
		q := autoscaler.Quota{Name: name, Counts: everyNode, Max: map[string]int64{resource: t.Max}}
		if t.Min > 0 {
			q.Min = map[string]int64{resource: t.Min}
		}
		to.Quotas = append(to.Quotas, q)
	}
	if cores, _ := parseTotal(o.CoresTotal); cores.Max > 0 { // checked by Validate
		add("cores-total", autoscaler.QuotaCores, cores)
	}
	if memory, _ := parseTotal(o.MemoryTotal); memory.Max > 0 {
		inBytes := func(gibibytes int64) int64 { return min(gibibytes, math.MaxInt64/gib) * gib }
		add("memory-total", autoscaler.QuotaMemory, Total{inBytes(memory.Min), inBytes(memory.Max)})
	}
	gpus := map[string]Total{}
	for _, text := range o.GPUTotal {
		kind, total, _ := parseGPUTotal(text)
		gpus[kind] = total
	}
	for _, kind := range slices.Sorted(maps.Keys(gpus)) {
		add("gpu-total of "+kind, kind, gpus[kind])
	}
	l.readCapacityQuotas()
	to.Quotas = append(to.Quotas, documentQuotas(l.spec.Quotas)...)
}

func everyNode(string, *v1.Node) bool { return true }

// scaleDownOptions converts the options of the document, already checked by Validate, to those of
// scale-down; nil if it is off.
func scaleDownOptions(o *v1alpha1.ScenarioOptions) *removal.Options {
	if !o.ScaleDownEnabled {
		return nil
	}
	out := &removal.Options{
		UnneededTime:           durationIfGiven(o.ScaleDownUnneededTime),
		UnreadyTime:            durationIfGiven(o.ScaleDownUnreadyTime),
		DelayAfterAdd:          durationIfGiven(o.ScaleDownDelayAfterAdd),
		SystemPodTimeout:       durationIfGiven(o.BlockingSystemPodDistruptionTimeout),
		MinReplicas:            int(o.MinReplicaCount),
		PodEvictionTime:        durationIfGiven(o.MaxPodEvictionTime),
		AllowSystemPods:        !ptr.Deref(o.SkipNodesWithSystemPods, true),
		AllowLocalStorage:      !ptr.Deref(o.SkipNodesWithLocalStorage, true),
		AllowCustomControllers: !ptr.Deref(o.SkipNodesWithCustomControllerPods, true),
		Seed:                   o.RandomSeed,
	}
	threshold := func(text json.Number) *int64 {
		if text == "" {
			return nil
		}
		share, _ := parseThreshold(text.String()) // checked by Validate
		return &share
	}
	out.UtilizationThreshold, out.GPUUtilizationThreshold = threshold(o.ScaleDownUtilizationThreshold),
		threshold(o.ScaleDownGPUUtilizationThreshold)
	out.MaxParallelism, out.MaxDrainParallelism = int(ptr.Deref(o.MaxScaleDownParallelism, 0)), int(ptr.Deref(o.MaxDrainParallelism, 0))
	return out
}

// parseThreshold reads a decimal from 0 to 1 as millionths.
func parseThreshold(text string) (int64, error) {
	if _, err := nodegroupset.ParseRatio(text); err != nil {
		return 0, err
	}
	share, err := strconv.ParseFloat(text, 64)
	return int64(math.Round(share * removal.Whole)), err
}

func durationIfGiven(d *metav1.Duration) *time.Duration {
	if d == nil {
		return nil
	}
	return &d.Duration
}

// similarity converts the similarity options to those of package nodegroupset, which checks them.
func similarity(o *v1alpha1.ScenarioOptions, at *field.Path) (nodegroupset.Options, field.ErrorList) {
	out := nodegroupset.Options{IgnoreLabels: o.BalancingIgnoreLabels, Labels: o.BalancingLabels, DisabledPacks: o.DisabledLabelPacks}
	var errs field.ErrorList
	for _, err := range out.SetRatios(o.MemoryDifferenceRatio.String(), o.MaxAllocatableDifferenceRatio.String(),
		o.MaxFreeDifferenceRatio.String()) {
		errs = append(errs, field.Invalid(at.Child(err.Path), err.Value, err.Reason))
	}
	if _, err := nodegroupset.NewIndex(out); err != nil {
		errs = append(errs, refusedOption(at, err, func(path string) string {
			return strings.Replace(path, "disabledPacks", "disabledLabelPacks",
				1)
		}))
	}
	return out, errs
}

// refusedOption returns the option that another package refuses, by its name in a document.
func refusedOption(at *field.Path, err error, named func(path string) string) *field.Error {
	var wrong *apportion.InvalidError
	if !errors.As(err, &wrong) || wrong.Path == "" {
		return field.Invalid(at, field.OmitValueType{}, err.Error())
	}
	return field.Invalid(at.Child(named(wrong.Path)), fmt.Sprint(wrong.Value), wrong.Reason)
}

// expanderChain makes the chain of strategies.
func expanderChain(o *v1alpha1.ScenarioOptions, at *field.Path) (expander.Chain, *field.Error) {
	config := expander.Config{Seed: o.RandomSeed}
	if len(o.Priorities) > 0 {
		text, err := json.Marshal(o.Priorities)
		if err == nil {
			config.Priorities, err = expander.ParsePriorities(text)
		}
		if err != nil {
			return expander.Chain{}, field.Invalid(at.Child("priorities"), field.OmitValueType{}, err.Error())
		}
	}
	var names []string
	if o.Expander != "" {
		var err error
		if names, err = expander.ParseNames(o.Expander); err != nil {
			return expander.Chain{}, field.Invalid(at.Child("expander"), o.Expander, err.Error())
		}
	}
	chain, err := expander.New(names, config)
	switch {
	case errors.Is(err, expander.ErrNoPriorities):
		return chain, field.Required(at.Child("priorities"), "the expander priority needs them")
	case err != nil:
		return chain, field.Invalid(at.Child("expander"), o.Expander, fmt.Sprint(err))
	}
	return chain, nil
}

// zonalShiftOptions converts the options of the document. The package itself checks them.
func zonalShiftOptions(o *v1alpha1.ZonalShiftOptions, at *field.Path) (zonalshift.Options, *field.Error) {
	pace := zonalshift.Pace{
		Interval:   durationOr(o.ZonalShiftReturnInterval, zonalshift.DefaultReturnInterval),
		Nodes:      int(ptr.Deref(o.ZonalShiftReturnNodes, zonalshift.DefaultReturnNodes)),
		Percentage: int(ptr.Deref(o.ZonalShiftReturnPercentage, zonalshift.DefaultReturnPercentage)),
	}
	out := zonalshift.Options{Pace: &pace, Detect: zonalshift.Detect{
		UnreadyPercentage: int(o.ZonalShiftDetectUnreadyPercentage), Refusals: o.ZonalShiftDetectRefusals,
		After: durationOr(o.ZonalShiftDetectAfter, 0), Calm: durationOr(o.ZonalShiftDetectCalm, 0),
	}}
	if _, err := zonalshift.New(out); err != nil {
		return out, refusedOption(at, err, zonalshift.OptionName)
	}
	return out, nil
}

// documentQuotas are the quotas of the document as Cluster Autoscaler counts them.
func documentQuotas(quotas []v1alpha1.ScenarioQuota) (out []autoscaler.Quota) {
	for i := range quotas {
		q := &quotas[i]
		counts := everyNode
		if len(q.Groups)+len(q.Zones) > 0 {
			counts = func(group string, node *v1.Node) bool {
				zone := nodegroupset.ZoneOf(node)
				return slices.Contains(q.Groups, group) || zone != "" && slices.Contains(q.Zones, zone)
			}
		}
		memory := ptr.Deref(q.Memory, resource.Quantity{})
		for _, limit := range []struct {
			resource string
			most     int64
		}{
			{autoscaler.QuotaNodes, ptr.Deref(q.Nodes, 0)}, {autoscaler.QuotaCores, ptr.Deref(q.Cores, 0)}, {autoscaler.QuotaMemory, memory.Value()},
		} {
			if limit.most > 0 {
				out = append(out, autoscaler.Quota{Name: q.Name, Counts: counts, Max: map[string]int64{limit.resource: limit.most}})
			}
		}
	}
	return out
}
