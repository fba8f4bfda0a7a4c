package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/internal/document"
	"github.com/evenkeel/evenkeel/internal/simulate"
	"github.com/evenkeel/evenkeel/internal/subsets"
)

// rescaledAt is when the replicas change that --replicas asks for.
const rescaledAt = time.Minute

// documents are the scenarios of the files, or the one that WorkloadSpreads and the objects beside them make, as kubectl prints them.
func (l *scenarioLoader) documents(contents *document.Contents) ([]document.Document, error) {
	if !contents.Has(v1alpha1.KindWorkloadSpread) || contents.Has(v1alpha1.KindScenario) {
		documents, err := contents.Of(simulate.Kinds())
		for _, wrong := range contents.Objects.All(func(kind string) bool { return kind == "Node" }) {
			if err != nil && wrong == nil {
				return nil, &usageError{err, "evenkeel scenario from-dump makes a scenario of the objects of a cluster"}
			}
		}
		return documents, err
	}
	dump, err := subsets.Of(contents)
	if err != nil {
		return nil, err
	}
	scenario := &v1alpha1.Scenario{}
	scenario.Name = dump.Spreads[0].Name
	for _, s := range dump.Spreads {
		scenario.Spec.WorkloadSpreads = append(scenario.Spec.WorkloadSpreads, *s)
	}
	for item, err := range dump.Objects() {
		if err != nil {
			return nil, err
		}
		if object, ok := item.Object.(interface{ GetObjectKind() schema.ObjectKind }); ok { // some lists leave out the kinds of their items
			object.GetObjectKind().SetGroupVersionKind(schema.FromAPIVersionAndKind(item.APIVersion, item.Kind))
		}
		raw, err := json.Marshal(item.Object)
		if err != nil {
			return nil, err
		}
		scenario.Spec.Objects = append(scenario.Spec.Objects, raw)
	}
	return []document.Document{{File: strings.Join(l.files, ", "), Number: 1, Kind: v1alpha1.KindScenario, Name: scenario.Name,
		Object: scenario}}, nil
}

// rescale lets the workload of the only WorkloadSpread have another number of replicas.
func rescale(setup *simulate.Setup, replicas int32) error {
	refuse := func(text string) error {
		return &usageError{errors.New(text), "it changes the replicas of the workload of one WorkloadSpread, which is read from objects with -f"}
	}
	switch {
	case len(setup.Spreads) != 1:
		return refuse(fmt.Sprintf("--replicas needs one WorkloadSpread, but there are %d", len(setup.Spreads)))
	case setup.Spreads[0].Workload < 0:
		return refuse("--replicas needs the workload of the WorkloadSpread among the objects")
	case replicas < 0 || replicas > simulate.MaxPods:
		return refuse(fmt.Sprintf("--replicas is %d: it must be between 0 and %d", replicas, simulate.MaxPods))
	}
	w := &setup.Workloads[setup.Spreads[0].Workload]
	w.Steps = append(slices.Clip(w.Steps), simulate.Step{At: rescaledAt, Replicas: int(replicas)})
	return nil
}
