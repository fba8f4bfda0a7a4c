package federation

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/json"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
)

// others is the name of the entry for all clusters that have no entry of their own.
const others = "*"

// preferences are the preferences of a FederatedReplicaSet, ready to be asked.
type preferences struct {
	v1alpha1.FederatedPreferences
	groups  []group // the entries with a selector, by name
	ignored string  // an annotation that does not count, because the spec has preferences
}

// group is an entry with a selector.
type group struct {
	name     string
	selector labels.Selector
}

// preferencesOf returns the preferences of the spec, else those of an annotation, else an equal
// share for every cluster.
func preferencesOf(in *Input) (*preferences, error) {
	key, text := oldPreferences(in)
	p := &preferences{}
	switch {
	case in.Spec.Preferences != nil:
		p.FederatedPreferences, p.ignored = *in.Spec.Preferences, key
	case key != "":
		parsed, err := ParsePreferences(text)
		if err != nil {
			return nil, fmt.Errorf("metadata.annotations[%s]: %w; correct it, or remove it and set spec.preferences", key, err)
		}
		p.FederatedPreferences = parsed
	}
	if len(p.Clusters) == 0 {
		p.Clusters = map[string]v1alpha1.FederatedPreference{others: {ClusterPreference: v1alpha1.ClusterPreference{Weight: new(int32(1))}}}
	}
	for _, name := range slices.Sorted(maps.Keys(p.Clusters)) {
		s := p.Clusters[name].Selector
		if s == nil {
			continue
		}
		selector, err := (*v1alpha1.LabelSelector)(s).AsSelector()
		if err != nil {
			return nil, field.Invalid(field.NewPath("spec", "preferences", "clusters").Key(name).Child("selector"), selector, err.Error())
		}
		p.groups = append(p.groups, group{name, selector})
	}
	return p, nil
}

// entryOf is the name of the entry that applies to a cluster; empty if there is none.
func (p *preferences) entryOf(c Cluster) string {
	if e, ok := p.Clusters[c.Name]; ok && e.Selector == nil {
		return c.Name
	}
	for _, g := range p.groups {
		if g.selector.Matches(labels.Set(c.Labels)) {
			return g.name
		}
	}
	if _, ok := p.Clusters[others]; ok {
		return others
	}
	return ""
}

// within is what the entry says about the cluster alone. In a group without entries of its own, all
// clusters are equal.
func (p *preferences) within(entry, cluster string) v1alpha1.ClusterPreference {
	e := p.Clusters[entry]
	switch {
	case e.Selector == nil:
		return e.ClusterPreference
	case e.Clusters == nil:
		return v1alpha1.ClusterPreference{Weight: new(int32(1))}
	}
	if own, ok := e.Clusters[cluster]; ok {
		return own
	}
	return e.Clusters[others]
}

// unclear says what in the preferences is easily misunderstood; empty if nothing is.
func (p *preferences) unclear(members []member) string {
	var notes []string
	note := func(format string, args ...any) { notes = append(notes, fmt.Sprintf(format, args...)) }
	if p.ignored != "" {
		note("the annotation %s is ignored because spec.preferences is set: remove it", p.ignored)
	}
	used := map[string]bool{}
	known := map[string]bool{}
	for _, m := range members {
		used[m.entry], known[m.Name] = true, true
	}
	for _, name := range slices.Sorted(maps.Keys(p.Clusters)) {
		e := p.Clusters[name]
		if e.Weight == nil {
			note("%s has no weight, which means 0: %s; set weight, or weight: 0 if this is meant", entryName(name), onlyMinimum(e.ClusterPreference))
		}
		switch {
		case e.Selector != nil && !used[name]:
			note("%s selects no cluster that has no entry of its own", entryName(name))
		case e.Selector == nil && name != others && !known[name]:
			note("%s is for a cluster that is not a member", entryName(name))
		}
		for _, inner := range slices.Sorted(maps.Keys(e.Clusters)) {
			if c := e.Clusters[inner]; c.Weight == nil {
				note("%s has no weight for %s, which means 0: %s", entryName(name), inner, onlyMinimum(c))
			}
		}
	}
	return strings.Join(notes, "; ")
}

// onlyMinimum says what an entry of weight 0 amounts to.
func onlyMinimum(c v1alpha1.ClusterPreference) string {
	if c.MinReplicas == nil || *c.MinReplicas == 0 {
		return "it has no replicas"
	}
	return fmt.Sprintf("it has no more than its minReplicas, %d", *c.MinReplicas)
}

func entryName(name string) string { return fmt.Sprintf("the entry %q", name) }

// The annotations that preferences were given by before there were fields for them.
const (
	AnnotationReplicaSetPreferences = "federation.kubernetes.io/replica-set-preferences"
	AnnotationDeploymentPreferences = "federation.kubernetes.io/deployment-preferences"
)

// maxWeight is the largest weight that the schema allows.
const maxWeight = 1_000_000_000

// oldPreferences is the annotation with preferences; that of the local kind if there are two. The
// key is empty if there is none.
func oldPreferences(in *Input) (key, text string) {
	keys := []string{AnnotationReplicaSetPreferences, AnnotationDeploymentPreferences}
	if in.Spec.LocalKind == v1alpha1.LocalDeployment {
		slices.Reverse(keys)
	}
	for _, key := range keys {
		if text, ok := in.Annotations[key]; ok {
			return key, text
		}
	}
	return "", ""
}

// ParsePreferences reads preferences in the form of an annotation: a JSON object with rebalance and
// clusters, a map from the name of a cluster or "*" to minReplicas, maxReplicas and weight. Names of
// fields may begin with a capital, as some programs wrote them. The error names the field.
func ParsePreferences(text string) (v1alpha1.FederatedPreferences, error) {
	var p, none v1alpha1.FederatedPreferences
	var document any
	strict, err := json.UnmarshalStrict([]byte(text), &document)
	if err = errors.Join(append(strict, err)...); err != nil {
		return none, fmt.Errorf("not a JSON object: %w", err)
	}
	fields, err := fieldsOf(document, "rebalance", "clusters")
	if err != nil {
		return none, err
	}
	if p.Rebalance, err = value[bool](fields["rebalance"], field.NewPath("rebalance"), "true or false"); err != nil {
		return none, err
	}
	at := field.NewPath("clusters")
	clusters, err := value[map[string]any](fields["clusters"], at, "an object")
	if err != nil {
		return none, err
	}
	if clusters != nil {
		p.Clusters = map[string]v1alpha1.FederatedPreference{}
	}
	for _, name := range slices.Sorted(maps.Keys(clusters)) {
		entry, err := parseEntry(clusters[name], at.Key(name))
		if err != nil {
			return none, err
		}
		p.Clusters[name] = v1alpha1.FederatedPreference{ClusterPreference: entry}
	}
	return p, nil
}

func parseEntry(entry any, at *field.Path) (c v1alpha1.ClusterPreference, err error) {
	fields, err := fieldsOf(entry, "minReplicas", "maxReplicas", "weight")
	if err != nil {
		return c, fmt.Errorf("%s: %w", at, err)
	}
	for _, number := range []struct {
		name string
		into **int32
		most int64
	}{{"minReplicas", &c.MinReplicas, math.MaxInt32}, {"maxReplicas", &c.MaxReplicas, math.MaxInt32}, {"weight", &c.Weight, maxWeight}} {
		at := at.Child(number.name)
		n, err := value[int64](fields[number.name], at, "a whole number")
		switch {
		case err != nil:
			return c, err
		case n < 0 || n > number.most:
			return c, field.Invalid(at, n, fmt.Sprintf("must be between 0 and %d", number.most))
		case fields[number.name] != nil:
			*number.into = new(int32(n))
		}
	}
	if c.MinReplicas != nil && c.MaxReplicas != nil && *c.MinReplicas > *c.MaxReplicas {
		return c, field.Invalid(at.Child("minReplicas"), *c.MinReplicas, "must not be greater than maxReplicas")
	}
	return c, nil
}

// fieldsOf are the fields of an object, which must be known ones. Null has none.
func fieldsOf(object any, known ...string) (map[string]any, error) {
	found, ok := object.(map[string]any)
	if !ok && object != nil {
		return nil, errors.New("not a JSON object")
	}
	fields := map[string]any{}
	for _, name := range slices.Sorted(maps.Keys(found)) {
		i := slices.IndexFunc(known, func(k string) bool { return k == name || strings.ToUpper(k[:1])+k[1:] == name })
		if i < 0 {
			return nil, field.NotSupported(field.NewPath(name), name, known)
		}
		if _, twice := fields[known[i]]; twice {
			return nil, field.Duplicate(field.NewPath(name), name)
		}
		fields[known[i]] = found[name]
	}
	return fields, nil
}

// value is a field of a type; the zero value if it is missing or null.
func value[T any](found any, at *field.Path, what string) (T, error) {
	v, ok := found.(T)
	if !ok && found != nil {
		return v, field.Invalid(at, fmt.Sprint(found), "must be "+what)
	}
	return v, nil
}
