package clusterautoscaler

import (
	"errors"
	"strings"
	"testing"

	"sigs.k8s.io/cluster-autoscaler/pkg/cloudprovider"
	testprovider "sigs.k8s.io/cluster-autoscaler/pkg/cloudprovider/test"
	ca_context "sigs.k8s.io/cluster-autoscaler/pkg/context"
	caerrors "sigs.k8s.io/cluster-autoscaler/pkg/utils/errors"
)

// silent is a group whose size the cloud cannot tell.
type silent struct{ cloudprovider.NodeGroup }

func (silent) TargetSize() (int, error) { return 0, errors.New("the cloud is out") }

func groupOf(id string, size, most int) cloudprovider.NodeGroup {
	return testprovider.NewTestNodeGroup(id, most, 0, size, true, false, "", nil, nil)
}

func TestBalanceScaleUpBetweenGroups(t *testing.T) {
	for _, test := range []struct {
		name   string
		groups []cloudprovider.NodeGroup
		nodes  int
		want   string // infos, or the error
	}{
		{"the chosen one first, then by name", []cloudprovider.NodeGroup{groupOf("b", 1, 9), groupOf("c", 1, 9), groupOf("a", 1, 9)}, 4,
			"b 1->3/9, a 1->2/9, c 1->2/9"},
		{"no node", []cloudprovider.NodeGroup{groupOf("a", 1, 9)}, 0, ""},
		{"no size of one", []cloudprovider.NodeGroup{groupOf("a", 1, 9), silent{groupOf("b", 0, 9)}, groupOf("c", 1, 9)}, 2,
			"a 1->2/9, c 1->2/9"},
		{"no size at all", []cloudprovider.NodeGroup{silent{groupOf("a", 0, 9)}}, 1, "cloudProviderError: the cloud is out"},
		{"no group", nil, 1, "internalError: no node group"},
	} {
		t.Run(test.name, func(t *testing.T) {
			infos, err := balancer(t).groupSet.BalanceScaleUpBetweenGroups(&ca_context.AutoscalingContext{}, test.groups, test.nodes)
			if err != nil {
				kind, text, _ := strings.Cut(test.want, ": ")
				if string(err.Type()) != kind || !strings.Contains(err.Error(), text) {
					t.Fatalf("%v: %v, want %s", err.Type(), err, test.want)
				}
				return
			}
			var got []string
			for _, info := range infos {
				got = append(got, strings.NewReplacer("{", "", "}", "", " (max: ", "/", ")", "").Replace(info.String()))
			}
			if text := strings.Join(got, ", "); text != test.want || infos == nil {
				t.Errorf("%s, want %s", text, test.want)
			}
		})
	}
}

func TestFindSimilarNodeGroupsWithoutTemplate(t *testing.T) {
	f := newCloud()
	f.group("a", "one")
	_, err := balancer(t).groupSet.FindSimilarNodeGroups(f.ctx, groupOf("unknown", 0, 1), f.templates)
	if err == nil || err.Type() != caerrors.InternalError || !strings.Contains(err.Error(), "unknown") {
		t.Errorf("%v", err)
	}
}
