package zonalshift

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
)

// Domain is a failure domain: the nodes that have a value of a label.
type Domain struct {
	Key   string `json:"topologyKey"`
	Value string `json:"name"`
}

// Zone is the domain of a zone.
func Zone(name string) Domain { return Domain{v1.LabelTopologyZone, name} }

// DomainOf is the domain of a value of a label; an empty key means that of a zone.
func DomainOf(key, value string) Domain {
	return Domain{cmp.Or(key, v1.LabelTopologyZone), value}
}

// String names the domain as a person would: "zone eu-west-1a", or "example.com/rack r1".
func (d Domain) String() string {
	if d.Key == v1.LabelTopologyZone {
		return "zone " + d.Value
	}
	return d.Key + " " + d.Value
}

// Has reports whether a node with these labels is in the domain. A zone is also known by its label
// of before Kubernetes 1.17.
func (d Domain) Has(labels map[string]string) bool {
	value, ok := valueOf(d.Key, labels)
	return ok && value == d.Value
}

func valueOf(key string, labels map[string]string) (string, bool) {
	value, ok := labels[key]
	if !ok && key == v1.LabelTopologyZone {
		value, ok = labels[v1.LabelFailureDomainBetaZone]
	}
	return value, ok
}

func compareDomains(a, b Domain) int {
	return cmp.Or(strings.Compare(a.Key, b.Key), strings.Compare(a.Value, b.Value))
}

// Mark is a domain that a user shifts away.
type Mark struct {
	Domain
	// Reason is the user's; it may be empty.
	Reason string
	// Since is when the shift begins. Until is when it ends by itself; zero where it does not.
	Since, Until time.Time
}

// Group is a node group as a shift sees it.
type Group struct {
	Name string
	// Set is the same for groups that are levelled with each other, empty for a group that is alone.
	Set string
	// Portion is the part of the set that the group is in, if a policy shares nodes between parts. Only
	// groups of one part have equal sizes to reach.
	Portion string
	// Labels are those of its nodes.
	Labels map[string]string
	// Size is its target size and Max the largest it may have, both 0 or more.
	Size, Max int
	// Ready and NotReady count its nodes that are in service, and those that were and are not any
	// more. NotReady does not count nodes that start.
	Ready, NotReady int
	// Refuses reports whether the group is left alone because the cloud has refused or not delivered
	// nodes.
	Refuses bool
}

// Shifted is a domain that is shifted away.
type Shifted struct {
	Domain
	// Detected reports whether it was detected; otherwise a user has marked it.
	Detected bool `json:"detected,omitempty"`
	// Reason is the user's, or what was detected.
	Reason string    `json:"reason,omitempty"`
	Since  time.Time `json:"since"`
	// Until is when it ends by itself, where that is known.
	Until time.Time `json:"until,omitzero"`
	// Groups are those that do not grow, by name.
	Groups []string `json:"groups"`
}

// String says what is shifted away, and why.
func (s Shifted) String() string {
	text := s.Domain.String() + " is shifted away"
	if s.Reason != "" {
		text += ": " + s.Reason
	}
	return text
}

// Ignored is a shift that has no effect, on one set or at all.
type Ignored struct {
	Domain
	// Set is the set it does not apply to, empty for all node groups.
	Set    string `json:"set,omitempty"`
	Reason string `json:"reason"`
}

// String says what has no effect, and why.
func (i Ignored) String() string {
	if i.Set == "" {
		return fmt.Sprintf("the shift of %s has no effect: %s", i.Domain, i.Reason)
	}
	return fmt.Sprintf("the shift of %s does not apply to the set of %s: %s", i.Domain, i.Set, i.Reason)
}

// Ended is a domain that was shifted away at the last call and is not any more.
type Ended struct {
	Domain
	Reason string `json:"reason"`
}

// Decision is what holds now. It shares nothing with the Shifts that made it.
type Decision struct {
	// Shifted are the domains that are shifted away, in the order in which they count. Began are
	// those of them that were not at the last call, and Ended those that are not any more.
	Shifted []Shifted
	Began   []Shifted
	Ended   []Ended
	// Ignored are the shifts without effect.
	Ignored []Ignored
	// Away says of each group that does not grow why.
	Away map[string]string
	// Held says of each group that does not shrink why.
	Held map[string]string
	// Lag is by how many nodes a group counts as larger than it is when nodes are split over its
	// set.
	Lag map[string]int
	// Next is when the passing of time alone may change the decision; zero where it does not.
	Next time.Time
}

// Idle reports whether nothing is different from a cluster without shifts.
func (d *Decision) Idle() bool {
	return len(d.Shifted)+len(d.Began)+len(d.Ended)+len(d.Ignored)+len(d.Lag) == 0
}

// Shifts remember which domains are shifted away, and which have come back and are not level with
// the others yet. Use New to make one.
type Shifts struct {
	o         Options
	shifted   map[Domain]Shifted
	away      map[string]Domain  // group to the domain that keeps it from growing
	returning map[string]catchUp // by group
	seen      map[Domain]health  // of zones, if they are watched
}

// New returns Shifts without memory. It refuses options that make no sense.
func New(o Options) (*Shifts, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	return &Shifts{
		o: o, shifted: map[Domain]Shifted{}, away: map[string]Domain{},
		returning: map[string]catchUp{}, seen: map[Domain]health{},
	}, nil
}

// Clone returns Shifts that remember the same.
func (s *Shifts) Clone() *Shifts {
	return &Shifts{
		o: s.o, shifted: maps.Clone(s.shifted), away: maps.Clone(s.away),
		returning: maps.Clone(s.returning), seen: maps.Clone(s.seen),
	}
}

// Watches reports whether Advance may decide something without a mark: a domain was shifted away at
// the last call, a group has to catch up still, or domains are watched.
func (s *Shifts) Watches() bool {
	return len(s.shifted)+len(s.away)+len(s.returning) > 0 || s.o.Detect.on()
}

// Advance takes in what is known at the instant now, and decides what holds. The order of marks and
// groups does not matter. No two groups have one name.
func (s *Shifts) Advance(now time.Time, marks []Mark, groups []Group) Decision {
	d := Decision{Away: map[string]string{}, Held: map[string]string{}, Lag: map[string]int{}}
	groups = slices.SortedFunc(slices.Values(groups), func(a, b Group) int { return strings.Compare(a.Name, b.Name) })
	before, wereAway := s.shifted, s.away
	s.shifted, s.away = map[Domain]Shifted{}, map[string]Domain{}
	for _, shift := range append(s.marked(&d, now, marks), s.detected(&d, now, groups)...) {
		s.apply(&d, shift, groups)
	}
	for _, shift := range d.Shifted {
		s.shifted[shift.Domain] = shift
		if _, known := before[shift.Domain]; !known {
			d.Began = append(d.Began, shift)
		}
	}
	for _, domain := range slices.SortedFunc(maps.Keys(before), compareDomains) {
		if _, still := s.shifted[domain]; !still {
			d.Ended = append(d.Ended, Ended{domain, whyEnded(before[domain], now)})
		}
	}
	s.hold(&d, groups)
	for group := range wereAway {
		if _, still := s.away[group]; !still {
			s.returning[group] = catchUp{}
		}
	}
	s.catchUp(&d, now, groups)
	return d
}

// marked are the marks of users that hold now, in the order in which they count.
func (s *Shifts) marked(d *Decision, now time.Time, marks []Mark) []Shifted {
	oldest := map[Domain]Shifted{}
	for _, m := range marks {
		switch {
		case now.Before(m.Since):
			d.wake(m.Since)
			continue
		case !m.Until.IsZero() && !now.Before(m.Until):
			continue
		}
		shift := Shifted{Domain: m.Domain, Reason: m.Reason, Since: m.Since, Until: m.Until}
		if other, twice := oldest[m.Domain]; !twice || compareShifts(shift, other) < 0 {
			oldest[m.Domain] = shift
		}
		d.wake(m.Until)
	}
	return slices.SortedFunc(maps.Values(oldest), compareShifts)
}

// compareShifts orders shifts by age, and of two marks of one domain prefers the one that lasts.
func compareShifts(a, b Shifted) int {
	lasting := func(s Shifted) int {
		if s.Until.IsZero() {
			return 0
		}
		return 1
	}
	return cmp.Or(a.Since.Compare(b.Since), compareDomains(a.Domain, b.Domain),
		cmp.Compare(lasting(a), lasting(b)), b.Until.Compare(a.Until), strings.Compare(a.Reason, b.Reason))
}

// apply keeps the groups of a domain from growing, set by set, where others are left.
func (s *Shifts) apply(d *Decision, shift Shifted, groups []Group) {
	inside := 0
	left := map[string]bool{} // sets of which a member outside may grow
	anywhere := false
	for i := range groups {
		g := &groups[i]
		_, away := s.away[g.Name]
		switch {
		case shift.Has(g.Labels):
			inside++
		case !away:
			left[g.Set], anywhere = true, true
		}
	}
	switch {
	case inside == 0:
		d.Ignored = append(d.Ignored, Ignored{Domain: shift.Domain, Reason: "no node group is there"})
		return
	case !anywhere:
		d.Ignored = append(d.Ignored, Ignored{Domain: shift.Domain, Reason: "no node group elsewhere could grow in its stead"})
		return
	}
	ignored := map[string]bool{}
	for i := range groups {
		g := &groups[i]
		if _, away := s.away[g.Name]; !shift.Has(g.Labels) || away {
			continue
		}
		if g.Set != "" && !left[g.Set] {
			if !ignored[g.Set] {
				ignored[g.Set] = true
				d.Ignored = append(d.Ignored, Ignored{shift.Domain, g.Set, "no member of the set elsewhere could grow in its stead"})
			}
			continue
		}
		s.away[g.Name] = shift.Domain
		d.Away[g.Name] = shift.String()
		shift.Groups = append(shift.Groups, g.Name)
	}
	if len(shift.Groups) > 0 || len(ignored) == 0 { // all its groups may be away already, for another domain
		d.Shifted = append(d.Shifted, shift)
	}
}

// hold keeps all members of sets from shrinking of which one is shifted away.
func (s *Shifts) hold(d *Decision, groups []Group) {
	sets := map[string]string{}
	for i := range groups {
		if g := &groups[i]; g.Set != "" && d.Away[g.Name] != "" && sets[g.Set] == "" {
			sets[g.Set] = d.Away[g.Name]
		}
	}
	for i := range groups {
		g := &groups[i]
		switch {
		case d.Away[g.Name] != "":
			d.Held[g.Name] = d.Away[g.Name]
		case g.Set != "" && sets[g.Set] != "":
			d.Held[g.Name] = sets[g.Set]
		}
	}
}

func whyEnded(s Shifted, now time.Time) string {
	switch {
	case s.Detected:
		return "its nodes and node groups have been well for a while"
	case !s.Until.IsZero() && !now.Before(s.Until):
		return "its time is over"
	}
	return "it was returned"
}

// wake notes an instant at which the decision may change.
func (d *Decision) wake(at time.Time) {
	if !at.IsZero() && (d.Next.IsZero() || at.Before(d.Next)) {
		d.Next = at
	}
}

// Domains are the values of a label that groups have, sorted.
func Domains(key string, groups []Group) []string {
	found := map[string]bool{}
	for i := range groups {
		if value, ok := valueOf(key, groups[i].Labels); ok {
			found[value] = true
		}
	}
	return slices.Sorted(maps.Keys(found))
}

// Away returns the groups that were shifted away at the last call or have not caught up since, by
// name, for a process to come.
func (s *Shifts) Away() []string {
	out := slices.AppendSeq(slices.Collect(maps.Keys(s.away)), maps.Keys(s.returning))
	slices.Sort(out)
	return slices.Compact(out)
}

// Restore takes over what Away of another process has returned: groups that are not shifted away any
// more catch up at the pace.
func (s *Shifts) Restore(groups []string) {
	for _, group := range groups {
		_, away := s.away[group]
		if _, returns := s.returning[group]; !away && !returns {
			s.returning[group] = catchUp{}
		}
	}
}
