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
	var p v1alpha1.FederatedPreferences
	fields, err := fieldsOf([]byte(text), "rebalance", "clusters")
	if err != nil {
		return p, err
	}
	if err := value(fields["rebalance"], field.NewPath("rebalance"), "true or false", &p.Rebalance); err != nil {
		return p, err
	}
	at := field.NewPath("clusters")
	var clusters map[string]raw
	if err := value(fields["clusters"], at, "an object", &clusters); err != nil {
		return p, err
	}
	if clusters != nil {
		p.Clusters = map[string]v1alpha1.FederatedPreference{}
	}
	for _, name := range slices.Sorted(maps.Keys(clusters)) {
		entry, err := parseEntry(clusters[name], at.Key(name))
		if err != nil {
			return v1alpha1.FederatedPreferences{}, err
		}
		p.Clusters[name] = v1alpha1.FederatedPreference{ClusterPreference: entry}
	}
	return p, nil
}

// raw is a part of a document that is not read yet.
type raw []byte

// UnmarshalJSON keeps the text.
func (r *raw) UnmarshalJSON(text []byte) error {
	*r = slices.Clone(text)
	return nil
}

func parseEntry(text raw, at *field.Path) (v1alpha1.ClusterPreference, error) {
	var c v1alpha1.ClusterPreference
	fields, err := fieldsOf(text, "minReplicas", "maxReplicas", "weight")
	if err != nil {
		return c, fmt.Errorf("%s: %w", at, err)
	}
	for _, number := range []struct {
		name string
		into **int32
		most int64
	}{{"minReplicas", &c.MinReplicas, math.MaxInt32}, {"maxReplicas", &c.MaxReplicas, math.MaxInt32}, {"weight", &c.Weight, maxWeight}} {
		var n *int64
		at := at.Child(number.name)
		if err := value(fields[number.name], at, "a whole number", &n); err != nil {
			return c, err
		}
		if n == nil {
			continue
		}
		if *n < 0 || *n > number.most {
			return c, field.Invalid(at, *n, fmt.Sprintf("must be between 0 and %d", number.most))
		}
		*number.into = new(int32(*n))
	}
	if c.MinReplicas != nil && c.MaxReplicas != nil && *c.MinReplicas > *c.MaxReplicas {
		return c, field.Invalid(at.Child("minReplicas"), *c.MinReplicas, "must not be greater than maxReplicas")
	}
	return c, nil
}

// fieldsOf splits an object into its fields, which must be known ones.
func fieldsOf(text []byte, known ...string) (map[string]raw, error) {
	var found map[string]raw
	strict, err := json.UnmarshalStrict(text, &found)
	if err = errors.Join(append(strict, err)...); err != nil {
		return nil, fmt.Errorf("not a JSON object: %w", err)
	}
	fields := map[string]raw{}
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

// value reads a field; a missing one or null leaves into as it is.
func value(text raw, at *field.Path, what string, into any) error {
	if text == nil {
		return nil
	}
	strict, err := json.UnmarshalStrict(text, into)
	if err = errors.Join(append(strict, err)...); err != nil {
		return field.Invalid(at, string(text), "must be "+what)
	}
	return nil
}
