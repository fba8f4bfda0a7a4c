package simulate

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/apportion"
	"github.com/evenkeel/evenkeel/backoff"
	"github.com/evenkeel/evenkeel/expander"
	"github.com/evenkeel/evenkeel/internal/autoscaler"
	"github.com/evenkeel/evenkeel/internal/autoscaler/removal"
	"github.com/evenkeel/evenkeel/internal/grouppolicy"
	"github.com/evenkeel/evenkeel/nodegroupset"
	"github.com/evenkeel/evenkeel/zonalshift"
)

const gib = 1 << 30

var policiesPath = specPath.Child("policies")

// Options are those of the autoscaler. The zero value has Cluster Autoscaler's defaults, except that
// similar groups are balanced and that cores and memory are not limited.
type Options struct {
	// DisableBalancing leaves the chosen group alone (--balance-similar-node-groups=false).
	DisableBalancing bool
	// DisableSpreadSplit gives pods with a topology spread nodes as Cluster Autoscaler asks for them.
	DisableSpreadSplit bool
	Similarity         nodegroupset.Options
	Expander           expander.Chain // the zero value is that of expander.Default
	Limits             Limits
	Backoff            backoff.Options
	ZonalShift         zonalshift.Options // of the sidecar
	// MaxNodeProvisionTime is how long an ordered node may take; 0 is Cluster Autoscaler's default.
	MaxNodeProvisionTime time.Duration
	StartupTaints        []string
	// MaxBalanceDeferral is how long a node that may go waits for its set: see deferral.Limit.
	MaxBalanceDeferral *time.Duration
}

// Limits bound growth. A zero number means no limit.
type Limits struct {
	MaxNodesPerScaleUp int
	MaxNodesTotal      int
	Cores, Memory      Total // of the whole cluster; memory in bytes
	// GPUs are those of each kind, which is the value of a node's GPU label. A maximum of 0 means none.
	GPUs map[string]Total
	// Capacity are CapacityQuotas.
	Capacity []CapacityQuota
	Quotas   []v1alpha1.ScenarioQuota
}

// Total bounds a resource of the whole cluster. Scale-down keeps the minimum.
type Total struct{ Min, Max int64 }

// CapacityQuota is a limit over the nodes that it selects, by resource: cpu in cores, memory in bytes, nodes,
// and kinds of GPUs.
type CapacityQuota struct {
	Name     string
	Selector labels.Selector
	Max      map[string]int64
}

// scalerOptions converts the options of the document, already checked by Validate, and its quotas.
func scalerOptions(s *v1alpha1.ScenarioSpec) (Options, field.ErrorList) {
	o, at := &s.Options, specPath.Child("options")
	var errs field.ErrorList
	cores, _ := parseTotal(o.CoresTotal) // checked by Validate
	memory, _ := parseTotal(o.MemoryTotal)
	gpus := map[string]Total{}
	for _, text := range o.GPUTotal {
		kind, total, _ := parseGPUTotal(text)
		gpus[kind] = total
	}
	inBytes := func(gibibytes int64) int64 { return min(gibibytes, math.MaxInt64/gib) * gib }
	out := Options{
		DisableBalancing:   o.BalanceSimilarNodeGroups != nil && !*o.BalanceSimilarNodeGroups,
		DisableSpreadSplit: o.SpreadAwareSplit != nil && !*o.SpreadAwareSplit,
		Limits: Limits{
			MaxNodesPerScaleUp: int(o.MaxNodesPerScaleup),
			MaxNodesTotal:      int(o.MaxNodesTotal),
			Cores:              cores,
			Memory:             Total{inBytes(memory.Min), inBytes(memory.Max)},
			GPUs:               gpus,
			Quotas:             s.Quotas,
		},
		StartupTaints:      o.StartupTaints,
		MaxBalanceDeferral: durationIfGiven(o.MaxBalanceDeferral),
	}
	setDuration(&out.Backoff.Initial, o.InitialNodeGroupBackoffDuration)
	setDuration(&out.Backoff.Max, o.MaxNodeGroupBackoffDuration)
	setDuration(&out.Backoff.Reset, o.NodeGroupBackoffResetTimeout)
	setDuration(&out.MaxNodeProvisionTime, o.MaxNodeProvisionTime)
	out.Similarity, errs = similarity(o, at)
	out.Similarity = nodegroupset.ParseGroupLabel(s.GroupLabel).Ignoring(out.Similarity)
	shift, refused := zonalShiftOptions(&o.ZonalShiftOptions, at)
	if refused != nil {
		errs = append(errs, refused)
	}
	out.ZonalShift = shift
	policies, wrong := grouppolicy.Convert(s.Policies, policiesPath)
	out.Similarity.Policies, errs = policies, append(errs, wrong...)
	chain, err := expanderChain(o, at)
	if err != nil {
		errs = append(errs, err)
	}
	out.Expander = chain
	return out, errs
}

// scaleDownOptions converts the options of the document, already checked by Validate, to those of
// scale-down; nil if it is off.
func scaleDownOptions(o *v1alpha1.ScenarioOptions) *removal.Options {
	if !o.ScaleDownEnabled {
		return nil
	}
	off := func(skip *bool) bool { return skip != nil && !*skip }
	out := &removal.Options{
		UnneededTime:           durationIfGiven(o.ScaleDownUnneededTime),
		UnreadyTime:            durationIfGiven(o.ScaleDownUnreadyTime),
		DelayAfterAdd:          durationIfGiven(o.ScaleDownDelayAfterAdd),
		SystemPodTimeout:       durationIfGiven(o.BlockingSystemPodDistruptionTimeout),
		MinReplicas:            int(o.MinReplicaCount),
		PodEvictionTime:        durationIfGiven(o.MaxPodEvictionTime),
		AllowSystemPods:        off(o.SkipNodesWithSystemPods),
		AllowLocalStorage:      off(o.SkipNodesWithLocalStorage),
		AllowCustomControllers: off(o.SkipNodesWithCustomControllerPods),
		Seed:                   o.RandomSeed,
	}
	threshold := func(text json.Number) *int64 {
		if text == "" {
			return nil
		}
		share, _ := parseThreshold(text.String()) // checked by Validate
		return &share
	}
	out.UtilizationThreshold, out.GPUUtilizationThreshold = threshold(o.ScaleDownUtilizationThreshold), threshold(o.ScaleDownGPUUtilizationThreshold)
	if o.MaxScaleDownParallelism != nil {
		out.MaxParallelism = int(*o.MaxScaleDownParallelism)
	}
	if o.MaxDrainParallelism != nil {
		out.MaxDrainParallelism = int(*o.MaxDrainParallelism)
	}
	return out
}

func leftAlone(o *v1alpha1.ScenarioOptions) autoscaler.PodFilter {
	return autoscaler.PodFilter{
		ExpendablePriorityCutoff: o.ExpendablePodsPriorityCutoff,
		BypassedSchedulers:       o.BypassedSchedulerNames,
		AllowedSchedulers:        o.AllowedSchedulerNames,
	}
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
	for _, err := range out.SetRatios(o.MemoryDifferenceRatio.String(), o.MaxAllocatableDifferenceRatio.String(), o.MaxFreeDifferenceRatio.String()) {
		errs = append(errs, field.Invalid(at.Child(err.Path), err.Value, err.Reason))
	}
	if _, err := nodegroupset.NewIndex(out); err != nil {
		errs = append(errs, refusedOption(at, err))
	}
	return out, errs
}

// refusedOption returns the option that package nodegroupset refuses.
func refusedOption(at *field.Path, err error) *field.Error {
	var wrong *apportion.InvalidError
	if !errors.As(err, &wrong) || wrong.Path == "" {
		return field.Invalid(at, field.OmitValueType{}, err.Error())
	}
	path := strings.Replace(wrong.Path, "disabledPacks", "disabledLabelPacks", 1)
	return field.Invalid(at.Child(path), wrong.Value, wrong.Reason)
}

// invalid extracts the reason from an error that repeats the value.
func invalid(at *field.Path, value string, err error) *field.Error {
	var wrong *apportion.InvalidError
	if errors.As(err, &wrong) {
		return field.Invalid(at, value, wrong.Reason)
	}
	return field.Invalid(at, value, err.Error())
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
