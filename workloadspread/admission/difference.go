package admission

import (
	stdjson "encoding/json"
	"fmt"
	"reflect"

	"gomodules.xyz/jsonpatch/v2"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/json"
)

// difference is the JSON patch that makes the pod that was sent the other one. Fields that only newer
// versions of Kubernetes know stay as they were sent.
func difference(raw []byte, before, after *v1.Pod) ([]byte, error) {
	var sent, from, to any
	if err := json.Unmarshal(raw, &sent); err != nil {
		return nil, fmt.Errorf("reading the pod: %w", err)
	}
	for pod, into := range map[*v1.Pod]*any{before: &from, after: &to} {
		text, err := json.Marshal(pod)
		if err == nil {
			err = json.Unmarshal(text, into)
		}
		if err != nil {
			return nil, fmt.Errorf("comparing pods: %w", err)
		}
	}
	text, err := json.Marshal(graft(sent, from, to))
	if err != nil {
		return nil, fmt.Errorf("comparing pods: %w", err)
	}
	patch, err := jsonpatch.CreatePatch(raw, text)
	if err != nil {
		return nil, fmt.Errorf("comparing pods: %w", err)
	}
	return stdjson.Marshal(patch)
}

// graft makes the changes between two values in what was sent.
func graft(sent, from, to any) any {
	if reflect.DeepEqual(from, to) {
		return sent
	}
	switch to := to.(type) {
	case map[string]any:
		sent, ok := sent.(map[string]any)
		from, _ := from.(map[string]any)
		if !ok || from == nil {
			return to
		}
		out := map[string]any{}
		for key, value := range sent {
			_, was := from[key]
			if _, is := to[key]; is || !was {
				out[key] = value
			}
		}
		for key, value := range to {
			if was, ok := from[key]; !ok || !reflect.DeepEqual(was, value) {
				out[key] = graft(sent[key], was, value)
			}
		}
		return out
	case []any:
		sent, ok := sent.([]any)
		from, _ := from.([]any)
		if !ok || len(sent) != len(from) {
			return to
		}
		out := make([]any, len(to))
		for i, value := range to {
			out[i] = value
			if j := counterpart(from, i, value); j >= 0 {
				out[i] = graft(sent[j], from[j], value)
			}
		}
		return out
	}
	return to
}

// counterpart is the index of what an element of a list was before, or -1: the equal one, the one of
// the same name, or without names the one at the same place.
func counterpart(from []any, i int, value any) int {
	if i < len(from) && reflect.DeepEqual(from[i], value) {
		return i
	}
	name := nameOf(value)
	for j := range from {
		if reflect.DeepEqual(from[j], value) || name != nil && nameOf(from[j]) == name {
			return j
		}
	}
	if name == nil && i < len(from) {
		return i
	}
	return -1
}

func nameOf(value any) any {
	fields, _ := value.(map[string]any)
	name, _ := fields["name"].(string)
	if name == "" {
		return nil
	}
	return name
}
