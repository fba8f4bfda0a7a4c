package federation

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/json"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
)

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
