package nodegroupset

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/evenkeel/evenkeel/apportion"
)

// Options say what makes two groups similar. The zero value is Cluster
// Autoscaler's tolerances with every label pack.
type Options struct {
	// IgnoreLabels are label keys that make no difference, besides those of the
	// label packs. A deprecated key is ignored with its current name, too.
	IgnoreLabels []string
	// Labels, when set, decide alone: groups are similar when each of these labels
	// is present on both and equal. Nothing else is looked at then.
	Labels []string
	// DisabledPacks are the names of label packs that do not apply.
	DisabledPacks []string
	// MemoryDifferenceRatio bounds the difference in memory capacity; nil is 0.015.
	MemoryDifferenceRatio *Ratio
	// MaxAllocatableDifferenceRatio bounds the difference in every allocatable
	// resource; nil is 0.05.
	MaxAllocatableDifferenceRatio *Ratio
	// MaxFreeDifferenceRatio bounds the difference in every free resource, which is
	// allocatable less the requests of the template's pods; nil is 0.05.
	MaxFreeDifferenceRatio *Ratio
	// Policies declare sets. Groups of such a set are similar to each other and to no
	// other group, whatever their templates are.
	Policies []SetPolicy
}

func (o Options) check(packs LabelPacks) error {
	lists := []struct {
		path string
		keys []string
	}{{"balancingIgnoreLabels", o.IgnoreLabels}, {"balancingLabels", o.Labels}}
	for _, list := range lists {
		for i, key := range list.keys {
			if strings.TrimSpace(key) == "" {
				return apportion.Invalid(fmt.Sprintf("%s[%d]", list.path, i), key, "must not be empty")
			}
		}
	}
	var known []string
	for _, pack := range packs.Packs {
		known = append(known, pack.Name)
	}
	for i, name := range o.DisabledPacks {
		if !slices.Contains(known, name) {
			return apportion.Invalid(fmt.Sprintf("disabledPacks[%d]", i), name,
				"is no label pack; known are "+strings.Join(known, ", "))
		}
	}
	return nil
}

// SetRatios sets the ratios that are given as exact decimals between 0 and 1; "" leaves one as it
// is. A ratio that cannot be used is left as it is too, and returned with the path of its option.
func (o *Options) SetRatios(memory, allocatable, free string) []*apportion.InvalidError {
	var refused []*apportion.InvalidError
	given := o.givenRatios()
	for kind, text := range [kinds]string{memory, allocatable, free} {
		if text == "" {
			continue
		}
		ratio, err := ParseRatio(text)
		var invalid *apportion.InvalidError
		if errors.As(err, &invalid) {
			invalid.Path = [kinds]string{"memoryDifferenceRatio", "maxAllocatableDifferenceRatio", "maxFreeDifferenceRatio"}[kind]
			refused = append(refused, invalid)
			continue
		}
		*given[kind] = &ratio
	}
	return refused
}

// givenRatios are the options for the limits, by kind.
func (o *Options) givenRatios() [kinds]**Ratio {
	return [kinds]**Ratio{&o.MemoryDifferenceRatio, &o.MaxAllocatableDifferenceRatio, &o.MaxFreeDifferenceRatio}
}

// ratios are the limits of the tolerant part, by kind.
type ratios [kinds]Ratio

func (o *Options) ratios() ratios {
	limits := defaultRatios
	for kind, given := range o.givenRatios() {
		if *given != nil {
			limits[kind] = **given
		}
	}
	return limits
}
