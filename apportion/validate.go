package apportion

import (
	"fmt"
	"slices"
	"strings"
)

// validate returns the first error in the order of the fields.
func (r *Request) validate() error {
	if err := inRange(r.Replicas, "replicas"); err != nil {
		return err
	}
	if err := r.validateOptions(); err != nil {
		return err
	}
	seen := make(map[string]bool, len(r.Targets))
	for i := range r.Targets {
		t := &r.Targets[i]
		if err := t.validate(i); err != nil {
			return err
		}
		if seen[t.Name] {
			return invalid(t.Name, "must be unique", "targets[%d].name", i)
		}
		seen[t.Name] = true
	}
	return nil
}

func (r *Request) validateOptions() error {
	for _, err := range []error{
		oneOf(r.Policy, "policy", Proportional, Priority),
		oneOf(r.Rounding, "rounding", LargestRemainder, Webster, DHondt),
		oneOf(r.MinMode, "minMode", Floor, Additive),
		oneOf(r.Shortage, "shortage", GuaranteeMin, TotalWins),
		oneOf(r.Pending, "pending", Keep, Trim),
		oneOf(r.Relief, "relief", Any, LaterOnly, HealthyOnly),
		oneOf(r.TieBreak, "tieBreak", Name, Hash),
	} {
		if err != nil {
			return err
		}
	}
	if r.Relief == LaterOnly && r.Policy != Priority {
		return invalid(string(r.Relief), "needs policy Priority, because Proportional has no order", "relief")
	}
	return nil
}

// oneOf accepts the values given, and the empty value, which is the default.
func oneOf[T ~string](value T, path string, values ...T) error {
	if value == "" || slices.Contains(values, value) {
		return nil
	}
	names := make([]string, len(values))
	for i, v := range values {
		names[i] = string(v)
	}
	return invalid(string(value), "must be one of "+strings.Join(names, ", "), "%s", path)
}

func (t *Target) validate(index int) error {
	if t.Name == "" {
		return invalid(t.Name, "must not be empty", "targets[%d].name", index)
	}
	if t.Weight != nil && *t.Weight < 0 {
		return invalid(*t.Weight, notNegative, "targets[%d].weight", index)
	}
	for _, count := range []struct {
		field string
		value *int64
	}{{"min", &t.Min}, {"max", t.Max}, {"capacity", t.Capacity}, {"current", &t.Current}, {"taken", t.Taken}} {
		if count.value == nil || 0 <= *count.value && *count.value <= MaxReplicas {
			continue
		}
		return inRange(*count.value, fmt.Sprintf("targets[%d].%s", index, count.field))
	}
	if t.Max != nil && t.Min > *t.Max {
		return invalid(t.Min, "must not be greater than max", "targets[%d].min", index)
	}
	return nil
}

func inRange(count int64, path string) error {
	switch {
	case count < 0:
		return invalid(count, notNegative, "%s", path)
	case count > MaxReplicas:
		return invalid(count, fmt.Sprintf("must not be greater than %d", MaxReplicas), "%s", path)
	}
	return nil
}
