package nodegroupset

import (
	"maps"
	"slices"
)

// zoneLabels say where a node is, the current name first.
var zoneLabels = []string{"topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone"}

func zoneOf(f *facts) string {
	for _, key := range zoneLabels {
		if zone, ok := f.lookup(key); ok {
			return zone
		}
	}
	return ""
}

// labelUse is what one compared label does over the fleet.
type labelUse struct {
	groups  int
	byValue map[string]string // the zone of the groups with a value
	byZone  map[string]string // the value of the groups in a zone
	strays  bool              // some value is in two zones or some zone has two values
}

func (u *labelUse) see(value, zone string) {
	u.groups++
	if known, ok := u.byValue[value]; ok && known != zone {
		u.strays = true
	}
	if known, ok := u.byZone[zone]; ok && known != value {
		u.strays = true
	}
	u.byValue[value], u.byZone[zone] = zone, value
}

func (u *labelUse) uniquePerGroup() bool { return u.groups > 1 && len(u.byValue) == u.groups }

func (u *labelUse) followsZone() bool {
	_, homeless := u.byZone[""]
	return !u.strays && !homeless && len(u.byZone) > 1
}

// candidates finds labels that may mean nothing and tries them, each alone and
// the fewest that join as many sets as all of them.
func (e *explainer) candidates(report *Report) {
	uses := map[string]*labelUse{}
	for _, group := range e.index.groups {
		zone := zoneOf(group.facts)
		for _, t := range group.traits {
			if t.kind != ofLabel {
				continue
			}
			if uses[t.key] == nil {
				uses[t.key] = &labelUse{byValue: map[string]string{}, byZone: map[string]string{}}
			}
			uses[t.key].see(t.value, zone)
		}
	}
	var keys []string
	for _, key := range slices.Sorted(maps.Keys(uses)) {
		use := uses[key]
		unique, zonal := use.uniquePerGroup(), use.followsZone()
		if !unique && !zonal || e.index.packs.HasMeaning(key) {
			continue
		}
		keys = append(keys, key)
		report.Candidates = append(report.Candidates, Candidate{
			Label: key, UniquePerGroup: unique, FollowsZone: zonal, Remedy: e.ignoring([]string{key}),
		})
	}
	report.Suggestion = e.suggest(keys)
}

func (e *explainer) ignoring(keys []string) Remedy {
	return e.fullRemedy(tally{changes: changes{ignore: keys}})
}

// suggest drops candidates one by one as long as no set falls apart.
func (e *explainer) suggest(keys []string) Remedy {
	if len(keys) == 0 {
		return Remedy{}
	}
	best := e.ignoring(keys)
	if best.Sets >= len(e.sets) {
		return Remedy{}
	}
	for i := len(keys) - 1; i >= 0; i-- {
		without := slices.Delete(slices.Clone(keys), i, i+1)
		if fewer := e.ignoring(without); fewer.Sets <= best.Sets {
			keys, best = without, fewer
		}
	}
	return best
}
