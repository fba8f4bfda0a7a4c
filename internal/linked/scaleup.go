package linked

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"k8s.io/klog/v2"

	"github.com/evenkeel/evenkeel/nodegroupset"
)

// ScaleUp is what the autoscaler asks to share among groups, the first of which is the chosen one.
type ScaleUp[G NodeGroup] struct {
	Groups []G
	Asked  int // nodes
	// Need is how many nodes the pods need, whatever limits there are; below Asked it counts as
	// Asked.
	Need int
	// Limits reads what limits several groups, where so many more nodes are wanted; nil where
	// nothing is known of that. It is not asked for one group alone, which has been given what its
	// limits leave.
	Limits func(groups []Sized[G], more int64) (Limits, error)
	// Declared returns how the set of a group shares nodes and all groups of the set; nil where no
	// sets are declared.
	Declared func(group string) (*nodegroupset.Terms, []G)
	// Planned is what all members of the set get for all pods at once; nil for no such plan.
	Planned *SpreadPlan[G]
	// Lag is by how many nodes a group counts as larger than it is; nil: none does.
	Lag func(group string) int64
	// Deadlines are those of declared sets; nil for none.
	Deadlines *Deadlines[G]
}

// Limits are the quotas over the groups of a scale-up, and how many more nodes the whole cluster
// may have.
type Limits struct {
	Quotas []nodegroupset.Quota
	Room   int64
}

// Growth is a group that gets nodes.
type Growth[G NodeGroup] struct {
	Group              G
	Size, NewSize, Max int
}

// ErrNoSize is of a scale-up for none of whose groups the cloud tells the size.
var ErrNoSize = errors.New("the size of no node group is known")

// Split shares new nodes among groups and writes down how. Groups that do not change are not in the
// answer; the chosen one comes first, the others by name.
func (u ScaleUp[G]) Split(journal *Journal) ([]Growth[G], error) {
	if len(u.Groups) == 0 {
		return nil, errors.New("there is no node group to give new nodes to")
	}
	sized, failed := readSizes(u.Groups)
	if len(sized) == 0 {
		first := u.Groups[0].Id()
		return nil, fmt.Errorf("%w; %s: %s", ErrNoSize, first, failed[first])
	}
	if u.Asked <= 0 {
		return nil, nil
	}
	if p := u.Planned; p != nil && p.Chosen == u.Groups[0].Id() && p.holds() {
		d := p.decision
		d.Asked = u.Asked
		journal.split(d)
		u.Deadlines.given(u.Groups, d.Groups)
		klog.V(1).InfoS("Scale-up is planned for all pods of the set", "chosen", d.Chosen, "need", d.Need, "asked", d.Asked, "pods", d.Pods,
			"podsLeft", d.PodsLeft, "groups", d.Groups)
		return p.Growth, nil
	}
	d := splitDecision{Chosen: u.Groups[0].Id(), Need: max(u.Asked, u.Need), Asked: u.Asked, LeftOut: problems(failed)}
	request, policy := u.underPolicy(u.request(sized, d), d.Chosen)
	d.Policy = policy
	lower := raise(&request, u.Lag)
	u.Deadlines.hold(request.Groups)
	result, err := nodegroupset.Split(request)
	if err != nil {
		return nil, err
	}
	lower(&result)
	result.Groups = result.Groups[:len(sized)]
	d.Unplaced, d.Groups, d.Quotas = int(result.Unplaced), membersOf(result.Groups), boundBy(result)
	u.Deadlines.given(u.Groups, d.Groups)
	journal.split(d)
	klog.V(1).InfoS("Scale-up is shared", "chosen", d.Chosen, "policy", d.Policy, "need", d.Need, "asked", d.Asked, "unplaced", d.Unplaced,
		"groups", d.Groups, "quotas", d.Quotas)
	return growing(sized, result, d.Chosen), nil
}

// request asks to share what the autoscaler asked for. Where the pods need more than that, only
// limits of the whole cluster and of the chosen group came between; when all of them are known the
// whole need is shared under all of them.
func (u ScaleUp[G]) request(sized []Sized[G], d splitDecision) nodegroupset.SplitRequest {
	request := nodegroupset.SplitRequest{Nodes: int64(d.Asked)}
	if sized[0].Group.Name == d.Chosen { // else its size is not known
		request.Chosen = d.Chosen
	}
	for _, group := range sized {
		request.Groups = append(request.Groups, group.Group)
	}
	if u.Limits == nil || len(sized) == 1 {
		return request
	}
	limits, err := u.Limits(sized, int64(d.Need))
	if err != nil {
		klog.ErrorS(err, "A scale-up is shared as if there were no quotas; the autoscaler cuts what exceeds one")
		return request
	}
	request.Quotas = limits.Quotas
	request.Nodes = max(request.Nodes, min(int64(d.Need), limits.Room))
	return request
}

// boundBy names the quotas that kept nodes from groups.
func boundBy(result nodegroupset.SplitResult) []string {
	var names []string
	for _, row := range result.Groups {
		if row.Reason == nodegroupset.ReasonQuota {
			names = append(names, row.Detail)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// growing are the groups that get nodes: the chosen one first, then by name.
func growing[G NodeGroup](sized []Sized[G], result nodegroupset.SplitResult, chosen string) []Growth[G] {
	var grown []Growth[G]
	for i, row := range result.Groups {
		if row.NewSize != row.Size {
			grown = append(grown, Growth[G]{sized[i].NodeGroup, int(row.Size), int(row.NewSize), int(sized[i].Group.Max)})
		}
	}
	slices.SortFunc(grown, func(a, b Growth[G]) int { return chosenFirst(chosen, a.Group.Id(), b.Group.Id()) })
	return grown
}

// chosenFirst orders names, the chosen one before all others.
func chosenFirst(chosen, a, b string) int {
	switch {
	case a == b:
		return 0
	case a == chosen:
		return -1
	case b == chosen:
		return 1
	}
	return cmp.Compare(a, b)
}
