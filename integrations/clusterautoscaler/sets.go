package clusterautoscaler

import (
	"errors"
	"maps"
	"reflect"
	"slices"
	"sync"

	"github.com/evenkeel/evenkeel/cloudprovider"
	"github.com/evenkeel/evenkeel/nodegroupset"

	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	ca_cloudprovider "sigs.k8s.io/cluster-autoscaler/pkg/cloudprovider"
	ca_context "sigs.k8s.io/cluster-autoscaler/pkg/context"
	"sigs.k8s.io/cluster-autoscaler/pkg/simulator/framework"
)

// errNoTemplate is of a group for which the autoscaler could make no template.
var errNoTemplate = errors.New("has no template")

// sets knows which node groups are similar. It keeps the index between loops and brings it up to date when it is asked about other
// templates than those it has seen. It is safe for concurrent use.
type sets struct {
	options nodegroupset.Options
	journal *journal
	clock   clock.PassiveClock

	mu    sync.Mutex
	index *nodegroupset.Index
	// seen are the templates the index was last brought up to date with. Every loop has a map of its own; that this one is kept
	// makes sure that no other has its address.
	seen   map[string]*framework.NodeInfo
	size   int // of seen then
	groups map[string]*member
	first  map[string]string // group to the first member of its set; groups on their own are missing
	failed map[string]string // group to the reason why it is compared with none
}

// member is a group with a template.
type member struct {
	info     *framework.NodeInfo
	template cloudprovider.Template
	group    ca_cloudprovider.NodeGroup // nil: not among the cloud's groups, as one that is yet to be created
	whole    bool                       // it is resized from nothing to all and back only, so it shares nodes with none
	filled   bool                       // the template in the index is completed
	failed   error                      // the template cannot be compared
}

func newSets(index *nodegroupset.Index, options nodegroupset.Options, journal *journal, clock clock.PassiveClock) *sets {
	return &sets{options: options, journal: journal, clock: clock, index: index}
}

// similar returns the cloud's groups that are similar to one with a template, in name order.
func (s *sets) similar(ctx *ca_context.AutoscalingContext, id string, templates map[string]*framework.NodeInfo) []ca_cloudprovider.NodeGroup {
	s.mu.Lock()
	defer s.mu.Unlock()
	if partners, current := s.partners(id, templates); current {
		return partners
	}
	s.sync(ctx, templates)
	partners, _ := s.partners(id, templates)
	return partners
}

// update brings the index up to date with the templates of a loop.
func (s *sets) update(ctx *ca_context.AutoscalingContext, templates map[string]*framework.NodeInfo) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.sameMap(templates) {
		s.sync(ctx, templates)
	}
}

// setOf names the set a group is in by its first member; it is empty for a group on its own and for one that is not known.
func (s *sets) setOf(id string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.first[id]
}

// templateOf returns the template a group was last compared by, which is the autoscaler's own, and nil where there is none.
func (s *sets) templateOf(id string) *framework.NodeInfo {
	s.mu.Lock()
	defer s.mu.Unlock()
	if m := s.groups[id]; m != nil {
		return m.info
	}
	return nil
}

// partners answers from the index if it is up to date as far as the answer goes.
func (s *sets) partners(id string, templates map[string]*framework.NodeInfo) (partners []ca_cloudprovider.NodeGroup, current bool) {
	if m := s.groups[id]; !s.sameMap(templates) || m == nil || m.info != templates[id] {
		return nil, false
	}
	partners = []ca_cloudprovider.NodeGroup{}
	for _, name := range s.index.Similar(id) {
		m := s.groups[name]
		if m.info != templates[name] {
			return nil, false
		}
		if m.group != nil {
			partners = append(partners, m.group)
		}
	}
	return partners, true
}

func (s *sets) sameMap(templates map[string]*framework.NodeInfo) bool {
	return s.seen != nil && len(templates) == s.size && reflect.ValueOf(templates).Pointer() == reflect.ValueOf(s.seen).Pointer()
}

// sync brings the index up to date. A template that is what it was is not read again.
func (s *sets) sync(ctx *ca_context.AutoscalingContext, templates map[string]*framework.NodeInfo) {
	start := s.clock.Now()
	fresh := s.first == nil
	groups, changed := s.read(ctx, templates)
	gone := 0
	for id := range s.groups {
		if groups[id] == nil {
			s.index.Delete(id)
			gone++
		}
	}
	s.seen, s.size, s.groups = templates, len(templates), groups
	s.reindex(changed, gone > 0)
	failed := s.failures(ctx, templates)
	news := fresh || len(changed) > 0 || gone > 0 || !maps.Equal(failed, s.failed)
	s.tellFailures(failed)
	s.failed = failed
	if !news {
		return
	}
	all := s.cloudsSets()
	s.first = firsts(all)
	took := s.clock.Since(start)
	s.journal.compared(comparison{
		Groups: len(groups), Changed: len(changed), Took: took, Sets: all, Failed: failed, Explain: s.explainLater(),
	})
	klog.V(4).InfoS("Node groups were compared", "groups", len(groups), "changed", len(changed), "gone", gone, "sets", len(all), "took", took)
}

// read looks at all templates and says which are not what they were.
func (s *sets) read(ctx *ca_context.AutoscalingContext, templates map[string]*framework.NodeInfo) (groups map[string]*member, changed []string) {
	byID := make(map[string]ca_cloudprovider.NodeGroup, len(templates))
	for _, group := range ctx.CloudProvider.NodeGroups() {
		byID[group.Id()] = group
	}
	groups = make(map[string]*member, len(templates))
	for id, info := range templates {
		if info == nil {
			continue
		}
		m := &member{info: info, group: byID[id]}
		m.whole = m.group != nil && resizedWhole(ctx, m.group)
		groups[id] = m
		old := s.groups[id]
		if old != nil && old.whole == m.whole && sameTemplate(old.info, info) {
			m.template, m.filled, m.failed = old.template, old.filled, old.failed
			if (old.group == nil) == (m.group == nil) {
				continue
			}
		} else {
			m.template = templateOf(info)
		}
		changed = append(changed, id)
	}
	slices.Sort(changed)
	return groups, changed
}

// resizedWhole says whether a group goes from nothing to its maximum at once. Where the cloud cannot say, it is a plain group; the
// autoscaler takes it for that too.
func resizedWhole(ctx *ca_context.AutoscalingContext, group ca_cloudprovider.NodeGroup) bool {
	options, err := group.GetOptions(ctx.NodeGroupDefaults)
	return err == nil && options != nil && options.ZeroOrMaxNodeScaling
}

// reindex puts what changed into the index, and what that completes.
func (s *sets) reindex(changed []string, gone bool) {
	if len(changed) == 0 && !gone {
		return
	}
	completed := s.completed()
	for id, m := range s.groups {
		template, filled := completed[id]
		if _, again := slices.BinarySearch(changed, id); !again && !filled && !m.filled {
			continue
		}
		if !filled {
			template = m.template
		}
		m.filled, m.failed = filled, nil
		s.index.Delete(id)
		if !m.whole {
			m.failed = s.index.Set(id, template)
		}
	}
}

// failures says of the cloud's groups which are compared with none, and why.
func (s *sets) failures(ctx *ca_context.AutoscalingContext, templates map[string]*framework.NodeInfo) map[string]string {
	failed := map[string]string{}
	for id, m := range s.groups {
		if m.failed != nil {
			failed[id] = m.failed.Error()
		}
	}
	for _, group := range ctx.CloudProvider.NodeGroups() {
		if templates[group.Id()] == nil {
			failed[group.Id()] = errNoTemplate.Error()
		}
	}
	return failed
}

// tellFailures logs what failed newly.
func (s *sets) tellFailures(failed map[string]string) {
	for _, id := range slices.Sorted(maps.Keys(failed)) {
		if s.failed[id] != failed[id] {
			klog.InfoS("Node group is balanced with no other, it cannot be compared", "nodeGroup", id, "reason", failed[id])
		}
	}
}

// cloudsSets are the sets of groups the cloud has; those yet to be created are left out.
func (s *sets) cloudsSets() [][]string {
	var out [][]string
	for _, set := range s.index.Sets() {
		set = slices.DeleteFunc(set, func(id string) bool { return s.groups[id].group == nil })
		if len(set) > 0 {
			out = append(out, set)
		}
	}
	return out
}

// firsts maps every group that is not on its own to the first of its set.
func firsts(all [][]string) map[string]string {
	first := map[string]string{}
	for _, set := range all {
		for _, id := range set {
			if len(set) > 1 {
				first[id] = set[0]
			}
		}
	}
	return first
}

// explainLater explains the groups as they are now whenever it is called. It works on an index of its own, so that the autoscaler
// never waits for it.
func (s *sets) explainLater() func() (nodegroupset.Report, error) {
	templates, options := make(map[string]cloudprovider.Template, len(s.groups)), s.options
	for id, m := range s.groups {
		if m.group != nil && !m.whole && m.failed == nil {
			templates[id] = m.template
		}
	}
	return func() (nodegroupset.Report, error) {
		index, err := nodegroupset.NewIndex(options)
		if err != nil {
			return nodegroupset.Report{}, err
		}
		for _, id := range slices.Sorted(maps.Keys(templates)) {
			if err := index.Set(id, templates[id]); err != nil {
				return nodegroupset.Report{}, err
			}
		}
		return index.Explain(), nil
	}
}
