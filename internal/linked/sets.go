package linked

import (
	"errors"
	"maps"
	"reflect"
	"slices"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/evenkeel/evenkeel/cloudprovider"
	"github.com/evenkeel/evenkeel/nodegroupset"
)

// ErrNoTemplate is of a group for which the autoscaler could make no template.
var ErrNoTemplate = errors.New("has no template")

// Sets knows which node groups are similar. It keeps the index between loops and brings it up to
// date when it is asked about other templates than those it has seen. T is the autoscaler's
// template and G its node group. It is safe for concurrent use.
type Sets[T comparable, G NodeGroup] struct {
	options nodegroupset.Options
	read    func(T) Template
	journal *Journal
	clock   clock.PassiveClock

	mu    sync.Mutex
	index *nodegroupset.Index
	// seen are the templates the index was last brought up to date with. Every loop has a map of
	// its own; that this one is kept makes sure that no other has its address.
	seen    map[string]T
	size    int // of seen then
	groups  map[string]*member[T, G]
	planned []string             // groups that the cloud does not have yet
	rings   map[*string]*ring[G] // by the list of the index they are made of
	first   map[string]string    // group to the first member of its set; groups on their own are missing
	failed  map[string]string    // group to the reason why it is compared with none
	notes   map[string]string    // group to what its template was completed with, or why it was not

	declared declared
}

// member is a group with a template.
type member[T comparable, G NodeGroup] struct {
	info     T
	shown    Template
	template cloudprovider.Template
	group    G
	planned  bool  // it is not among the cloud's groups, as one that is yet to be created
	whole    bool  // it is resized from nothing to all and back only, so it shares nodes with none
	filled   bool  // the template in the index is completed
	failed   error // the template cannot be compared
}

// NewSets returns sets without memory. Read says what is compared of a template. Options that
// cannot be used are refused with an error that names the flag.
func NewSets[T comparable, G NodeGroup](options nodegroupset.Options, read func(T) Template, journal *Journal) (*Sets[T, G], error) {
	index, err := nodegroupset.NewIndex(options)
	if err != nil {
		return nil, namingTheFlag(err)
	}
	return &Sets[T, G]{options: options, read: read, journal: journal, clock: journal.clock, index: index}, nil
}

// Similar returns the cloud's groups that are similar to one with a template: in name order, from
// the one after it on and then from the first. The caller must not change the list.
func (s *Sets[T, G]) Similar(id string, templates map[string]T, cloud Cloud[G]) []G {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.current(id, templates) {
		s.sync(templates, cloud)
	}
	if s.groups[id] == nil {
		return nil
	}
	return s.partners(id)
}

// Update brings the index up to date with the templates of a loop.
func (s *Sets[T, G]) Update(templates map[string]T, cloud Cloud[G]) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.sameMap(templates) {
		s.sync(templates, cloud)
	}
}

// SetOf names the set a group is in by its first member; it is empty for a group on its own and for
// one that is not known.
func (s *Sets[T, G]) SetOf(id string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.first[id]
}

// NoteOf says from which group the template was completed by which a group was last compared, and with
// what; it is empty if nothing was missing.
func (s *Sets[T, G]) NoteOf(id string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.notes[id]
}

// TemplateOf returns the node of the template a group was last compared by, which is the
// autoscaler's own, and nil if there is none.
func (s *Sets[T, G]) TemplateOf(id string) *v1.Node {
	s.mu.Lock()
	defer s.mu.Unlock()
	if m := s.groups[id]; m != nil {
		return m.shown.Node
	}
	return nil
}

// current reports whether the index answers a question about a group of the templates. Within a
// loop a template may take the place of another only where the autoscaler creates a group that was
// planned.
func (s *Sets[T, G]) current(id string, templates map[string]T) bool {
	unchanged := func(id string) bool { return s.groups[id] != nil && s.groups[id].info == templates[id] }
	return s.sameMap(templates) && unchanged(id) && !slices.ContainsFunc(s.planned, func(id string) bool { return !unchanged(id) })
}

// partners are the cloud's groups that are similar to one. All groups of a list that the index
// shares are given parts of one ring, so that the answers about every group of a large set cost no
// more than the set.
func (s *Sets[T, G]) partners(id string) []G {
	names, shared := s.index.Alike(id)
	if len(names) == 0 {
		return nil
	}
	if !shared {
		return s.newRing(names).without(id)
	}
	r := s.rings[&names[0]]
	if r == nil {
		r = s.newRing(names)
		s.rings[&names[0]] = r
	}
	return r.without(id)
}

// ring is a list of groups, twice in a row: that without one of them is a part of it.
type ring[G NodeGroup] struct {
	groups []G
	at     map[string]int
}

// newRing returns the ring of those of the groups that the cloud has.
func (s *Sets[T, G]) newRing(names []string) *ring[G] {
	r := &ring[G]{at: make(map[string]int, len(names))}
	for _, name := range names {
		if m := s.groups[name]; !m.planned {
			r.at[name] = len(r.groups)
			r.groups = append(r.groups, m.group)
		}
	}
	r.groups = append(r.groups, r.groups...)
	return r
}

func (r *ring[G]) without(id string) []G {
	n := len(r.groups) / 2
	at, member := r.at[id]
	if !member {
		return r.groups[:n:n]
	}
	return r.groups[at+1 : at+n : at+n]
}

func (s *Sets[T, G]) sameMap(templates map[string]T) bool {
	return s.seen != nil && len(templates) == s.size && reflect.ValueOf(templates).Pointer() == reflect.ValueOf(s.seen).Pointer()
}

// sync brings the index up to date. A template that is what it was is not read again.
func (s *Sets[T, G]) sync(templates map[string]T, cloud Cloud[G]) {
	start := s.clock.Now()
	fresh := s.first == nil
	groups, changed := s.look(templates, cloud)
	gone := 0
	for id := range s.groups {
		if groups[id] == nil {
			s.index.Delete(id)
			gone++
		}
	}
	s.seen, s.size, s.groups = templates, len(templates), groups
	s.planned, s.rings = s.plannedGroups(), map[*string]*ring[G]{}
	if s.usePolicies() {
		changed = slices.Sorted(maps.Keys(groups))
	}
	s.reindex(changed, gone > 0)
	failed := s.failures(templates, cloud)
	news := fresh || len(changed) > 0 || gone > 0 || !maps.Equal(failed, s.failed)
	s.logFailures(failed)
	s.failed = failed
	if !news {
		return
	}
	all := s.cloudsSets()
	s.first = nodegroupset.FirstOf(all)
	took := s.clock.Since(start)
	s.journal.compared(comparison{
		Groups: len(groups), Changed: len(changed), Took: took, Sets: all, Failed: failed, Explain: s.explainLater(),
	})
	klog.V(4).InfoS("Node groups were compared", "groups", len(groups), "changed", len(changed), "gone", gone, "sets", len(all), "took", took)
}

// look looks at all templates and says which are not what they were.
func (s *Sets[T, G]) look(templates map[string]T, cloud Cloud[G]) (groups map[string]*member[T, G], changed []string) {
	byID := make(map[string]G, len(templates))
	for _, group := range cloud.NodeGroups() {
		byID[group.Id()] = group
	}
	groups = make(map[string]*member[T, G], len(templates))
	var none T
	for id, info := range templates {
		if info == none {
			continue
		}
		group, has := byID[id]
		m := &member[T, G]{info: info, shown: s.read(info), group: group, planned: !has}
		m.whole = has && resizedWhole(cloud, group)
		groups[id] = m
		old := s.groups[id]
		if old != nil && old.whole == m.whole && (old.info == info || old.shown.same(m.shown)) {
			m.template, m.filled, m.failed = old.template, old.filled, old.failed
			if old.planned == m.planned {
				continue
			}
		} else {
			m.template = m.shown.compared()
		}
		changed = append(changed, id)
	}
	slices.Sort(changed)
	return groups, changed
}

// plannedGroups are those that are not among the cloud's.
func (s *Sets[T, G]) plannedGroups() []string {
	var planned []string
	for id, m := range s.groups {
		if m.planned {
			planned = append(planned, id)
		}
	}
	return planned
}

// resizedWhole reports whether a group goes from nothing to its maximum at once. Where the cloud
// cannot say, it is a plain group; the autoscaler takes it for that too.
func resizedWhole[G NodeGroup](cloud Cloud[G], group G) bool {
	whole, err := cloud.ZeroOrMax(group)
	return err == nil && whole
}

// reindex puts what changed into the index, and what that completes.
func (s *Sets[T, G]) reindex(changed []string, gone bool) {
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
func (s *Sets[T, G]) failures(templates map[string]T, cloud Cloud[G]) map[string]string {
	failed := map[string]string{}
	var none T
	for id, m := range s.groups {
		if m.failed != nil {
			failed[id] = m.failed.Error()
		}
	}
	for _, group := range cloud.NodeGroups() {
		if templates[group.Id()] == none {
			failed[group.Id()] = ErrNoTemplate.Error()
		}
	}
	return failed
}

// logFailures logs what has not failed so before.
func (s *Sets[T, G]) logFailures(failed map[string]string) {
	for _, id := range slices.Sorted(maps.Keys(failed)) {
		if s.failed[id] != failed[id] {
			klog.InfoS("Node group is balanced with no other, it cannot be compared", "nodeGroup", id, "reason", failed[id])
		}
	}
}

// cloudsSets are the sets of groups the cloud has; those yet to be created are left out.
func (s *Sets[T, G]) cloudsSets() [][]string {
	var out [][]string
	for _, set := range s.index.Sets() {
		set = slices.DeleteFunc(set, func(id string) bool { return s.groups[id].planned })
		if len(set) > 0 {
			out = append(out, set)
		}
	}
	return out
}

// explainLater explains the groups as they are now whenever it is called. It works on an index of
// its own, so that the autoscaler never waits for it.
func (s *Sets[T, G]) explainLater() func() (nodegroupset.Report, error) {
	templates, options := make(map[string]cloudprovider.Template, len(s.groups)), s.options
	for id, m := range s.groups {
		if !m.planned && !m.whole && m.failed == nil {
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
