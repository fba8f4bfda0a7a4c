package clusterautoscaler_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/evenkeel/evenkeel/integrations/clusterautoscaler"

	"sigs.k8s.io/cluster-autoscaler/pkg/cloudprovider"
	testprovider "sigs.k8s.io/cluster-autoscaler/pkg/cloudprovider/test"
	"sigs.k8s.io/cluster-autoscaler/pkg/config"
	ca_context "sigs.k8s.io/cluster-autoscaler/pkg/context"
	coreoptions "sigs.k8s.io/cluster-autoscaler/pkg/core/options"
	"sigs.k8s.io/cluster-autoscaler/pkg/processors/nodegroupset"
	processorstest "sigs.k8s.io/cluster-autoscaler/pkg/processors/test"
	"sigs.k8s.io/cluster-autoscaler/pkg/simulator/framework"
	"sigs.k8s.io/yaml"
)

// fleetSize makes 90 ordered pairs of a fleet.
const fleetSize = 10

func (o similarityOptions) upstream() nodegroupset.NodeInfoComparator {
	if len(o.labels) > 0 {
		return nodegroupset.CreateLabelNodeInfoComparator(o.labels)
	}
	create := map[string]func([]string, config.NodeGroupDifferenceRatios) nodegroupset.NodeInfoComparator{
		"generic": nodegroupset.CreateGenericNodeInfoComparator,
		"aws":     nodegroupset.CreateAwsNodeInfoComparator,
		"azure":   nodegroupset.CreateAzureNodeInfoComparator,
		"gce":     nodegroupset.CreateGceNodeInfoComparator,
	}
	return create[o.comparator](o.ignore, o.ratios)
}

func (o similarityOptions) autoscaling() config.AutoscalingOptions {
	return config.AutoscalingOptions{
		BalanceSimilarNodeGroups:    true,
		BalancingExtraIgnoredLabels: o.ignore,
		BalancingLabels:             o.labels,
		NodeGroupSetRatios:          o.ratios,
	}
}

// balancingProcessor is what evenkeel installs into an autoscaler with these options.
func balancingProcessor(t testing.TB, options config.AutoscalingOptions) nodegroupset.NodeGroupSetProcessor {
	t.Helper()
	balancer, err := clusterautoscaler.New(options, clusterautoscaler.Options{})
	if err != nil {
		t.Fatal(err)
	}
	standard, _ := processorstest.NewTestProcessors(options)
	into := &coreoptions.AutoscalerOptions{
		AutoscalingOptions: options,
		CloudProvider:      testprovider.NewTestCloudProviderBuilder().Build(),
		Processors:         standard,
	}
	if err := balancer.Install(into); err != nil {
		t.Fatal(err)
	}
	return into.Processors.NodeGroupSetProcessor
}

// foundSimilar asks a processor for the groups similar to each, as pairs of ids.
func foundSimilar(processor nodegroupset.NodeGroupSetProcessor, infos map[string]*framework.NodeInfo) (map[[2]string]bool, error) {
	provider := testprovider.NewTestCloudProviderBuilder().Build()
	groups := map[string]cloudprovider.NodeGroup{}
	for id := range infos {
		group := provider.BuildNodeGroup(id, 0, 10, 1, true, false, "", nil)
		provider.InsertNodeGroup(group)
		groups[id] = group
	}
	ctx := &ca_context.AutoscalingContext{CloudProvider: provider}
	ctx.BalanceSimilarNodeGroups = true
	out := map[[2]string]bool{}
	for _, id := range slices.Sorted(maps.Keys(infos)) {
		similar, aErr := processor.FindSimilarNodeGroups(ctx, groups[id], infos)
		if aErr != nil {
			return nil, aErr
		}
		for _, other := range similar {
			pair := [2]string{id, other.Id()}
			if out[pair] || other.Id() == id {
				return nil, fmt.Errorf("%v is listed twice, or similar to itself", pair)
			}
			out[pair] = true
		}
	}
	return out, nil
}

// tally counts pairs and why the two sides disagree on them.
type tally struct {
	pairs, similar, labelPairs int
	causes                     map[departure]int
	stricter                   map[departure]int // of those, how often evenkeel alone says no
}

// judge checks all pairs of a fleet, which evenkeel may have seen otherwise before: both sides'
// answers have to be those of the rule, and where they disagree, the fewest departures that
// account for it are counted.
func (c *tally) judge(options similarityOptions, evenkeel nodegroupset.NodeGroupSetProcessor, fleet []template) error {
	rules, err := newRuleBook(options)
	if err != nil {
		return err
	}
	infos := map[string]*framework.NodeInfo{}
	for _, one := range fleet {
		infos[one.node.Name] = one.nodeInfo()
	}
	theirs, err := foundSimilar(&nodegroupset.BalancingNodeGroupSetProcessor{Comparator: options.upstream()}, infos)
	if err != nil {
		return fmt.Errorf("upstream: %w", err)
	}
	ours, err := foundSimilar(evenkeel, infos)
	if err != nil {
		return fmt.Errorf("evenkeel: %w", err)
	}
	for _, left := range fleet {
		for _, right := range fleet {
			pair := [2]string{left.node.Name, right.node.Name}
			if pair[0] == pair[1] {
				continue
			}
			answers := pairAnswers{rules: rules, left: infos[pair[0]], right: infos[pair[1]], upstream: theirs[pair], evenkeel: ours[pair]}
			if err := c.count(answers); err != nil {
				return fmt.Errorf("%s and %s: %w\n%s", pair[0], pair[1], err, describe(options, left, right))
			}
		}
	}
	return nil
}

// pairAnswers is what the two sides say of a pair.
type pairAnswers struct {
	rules              *ruleBook
	left, right        *framework.NodeInfo
	upstream, evenkeel bool
}

func (c *tally) count(v pairAnswers) error {
	byRule := func(d departure) bool { return v.rules.similar(v.left, v.right, d) }
	if v.upstream != byRule(noDepartures) {
		return fmt.Errorf("upstream says %v, the rule without departures does not", v.upstream)
	}
	if v.evenkeel != byRule(allDepartures) {
		return fmt.Errorf("evenkeel says %v, the rule with all departures does not", v.evenkeel)
	}
	byLabels := len(v.rules.options.labels) > 0
	c.pairs++
	c.similar += indicator(v.evenkeel)
	c.labelPairs += indicator(byLabels)
	if v.evenkeel == v.upstream {
		return nil
	}
	if byLabels {
		return fmt.Errorf("upstream says %v by the chosen labels, evenkeel %v", v.upstream, v.evenkeel)
	}
	cause := smallestDepartures(func(takenBack departure) bool { return byRule(allDepartures&^takenBack) == v.upstream })
	c.causes[cause]++
	c.stricter[cause] += indicator(v.upstream)
	return nil
}

func describe(options similarityOptions, left, right template) string {
	out, err := yaml.Marshal(map[string]any{
		"options": fmt.Sprintf("%+v", options),
		"left":    map[string]any{"node": left.node, "pods": left.pods},
		"right":   map[string]any{"node": right.node, "pods": right.pods},
	})
	if err != nil {
		return err.Error()
	}
	return string(out)
}

// TestSimilarityIsUpstreamsButForDocumentedDifferences compares templates with both processors and
// the same options. Every result on which they disagree has to follow from a documented difference,
// and become the same once that is taken back.
func TestSimilarityIsUpstreamsButForDocumentedDifferences(t *testing.T) {
	fleets := uint64(600)
	if testing.Short() {
		fleets = 50
	}
	c := tally{causes: map[departure]int{}, stricter: map[departure]int{}}
	for number := range fleets {
		m := newFleetMaker(number)
		evenkeel := balancingProcessor(t, m.options.autoscaling())
		fleet := m.fleet(fleetSize)
		for loop, fleet := range [][]template{fleet, m.nextLoop(fleet)} {
			if err := c.judge(m.options, evenkeel, fleet); err != nil {
				t.Fatalf("fleet %d, loop %d: %v", number, loop, err)
			}
		}
	}
	disagreements := 0
	alone := departure(0)
	for _, cause := range slices.SortedFunc(maps.Keys(c.causes), func(a, b departure) int { return c.causes[b] - c.causes[a] }) {
		disagreements += c.causes[cause]
		if popCount(cause) == 1 {
			alone |= cause
			t.Logf("%6d  %v; evenkeel alone says no %d times", c.causes[cause], cause, c.stricter[cause])
		}
	}
	t.Logf("%d pairs, %d by chosen labels; %d similar for evenkeel; %d disagreements, of %d kinds with combinations",
		c.pairs, c.labelPairs, c.similar, disagreements, len(c.causes))
	if missing := allDepartures &^ alone; missing != noDepartures && !testing.Short() {
		t.Errorf("no pair differs by this alone, so it is not tested: %v", missing)
	}
}
