package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/internal/document"
	"github.com/evenkeel/evenkeel/internal/simulate"
	"github.com/evenkeel/evenkeel/workloadspread"
)

// rescaledAt is when the replicas change that --replicas asks for.
const rescaledAt = time.Minute

// objectScenario makes one scenario of WorkloadSpreads and other objects as kubectl prints them; nil if
// the files hold no WorkloadSpread, or a Scenario. Standard input can be read again then.
func objectScenario(cmd *cobra.Command, files []string, sizes sizeLimits) (*document.Document, error) {
	stdin := bytes.NewReader(nil)
	if slices.Contains(files, "-") {
		text, err := io.ReadAll(io.LimitReader(cmd.InOrStdin(), max(sizes.documents, sizes.lists)+1))
		if err != nil {
			return nil, fmt.Errorf("stdin: %w", err)
		}
		stdin = bytes.NewReader(text)
		defer func() { cmd.SetIn(bytes.NewReader(text)) }()
	}
	objects, played, err := otherObjects(files, stdin, sizes)
	if !played {
		return nil, nil //nolint:nilerr // the scenario is read again, with the same error
	}
	if err != nil {
		return nil, err
	}
	_, _ = stdin.Seek(0, io.SeekStart) // cannot fail
	docs, err := document.ReadFiles(files, stdin, document.Options{
		Kinds:       document.Kinds{v1alpha1.KindWorkloadSpread: func() any { return new(v1alpha1.WorkloadSpread) }},
		AmongOthers: true, MaxSize: max(sizes.documents, sizes.lists),
	})
	if err != nil {
		return nil, err
	}
	scenario := &v1alpha1.Scenario{}
	scenario.Spec.Objects = objects
	if scenario.Spec.WorkloadSpreads, err = validSpreads(docs); err != nil {
		return nil, err
	}
	scenario.Name = docs[0].Name
	return &document.Document{File: docs[0].File, Number: docs[0].Number, Kind: v1alpha1.KindScenario, Name: docs[0].Name, Object: scenario}, nil
}

// otherObjects reads the objects that a scenario uses. It reports whether the files have a
// WorkloadSpread and no Scenario, which is known also if there is an error later.
func otherObjects(files []string, stdin io.Reader, sizes sizeLimits) (objects []json.RawMessage, played bool, err error) {
	open := func(name string) (io.ReadCloser, error) {
		if name == "-" {
			return io.NopCloser(stdin), nil
		}
		return os.Open(name)
	}
	scenarios := false
	for _, name := range files {
		names := []string{name}
		if name != "-" {
			if names, _, err = document.Expand(name, open); err != nil {
				return nil, played && !scenarios, err
			}
		}
		for _, name := range names {
			f, err := open(name)
			if err != nil {
				return nil, played && !scenarios, err
			}
			if name == "-" {
				name = "stdin"
			}
			for item, err := range document.Objects(name, f, document.StreamOptions{MaxSize: sizes.lists}) {
				if err != nil {
					return nil, played && !scenarios, errors.Join(err, f.Close())
				}
				if strings.HasPrefix(item.APIVersion, v1alpha1.Group+"/") {
					played = played || item.Kind == v1alpha1.KindWorkloadSpread
					scenarios = scenarios || item.Kind == v1alpha1.KindScenario
				}
				if item.Object == nil {
					continue
				}
				raw, err := withKind(&item)
				if err != nil {
					return nil, played && !scenarios, err
				}
				objects = append(objects, raw)
			}
			if err := f.Close(); err != nil {
				return nil, played && !scenarios, err
			}
		}
	}
	return objects, played && !scenarios, nil
}

// withKind is an object with its kind, which the items of some lists leave out.
func withKind(item *document.Item) (json.RawMessage, error) {
	raw, err := json.Marshal(item.Object)
	if err != nil {
		return nil, err
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(raw, &fields); err != nil {
		return nil, err
	}
	for key, value := range map[string]string{"apiVersion": item.APIVersion, "kind": item.Kind} {
		if fields[key], err = json.Marshal(value); err != nil {
			return nil, err
		}
	}
	return json.Marshal(fields)
}

// validSpreads are the WorkloadSpreads of documents. The error is a *document.Invalid with the paths in
// each of them.
func validSpreads(docs []document.Document) ([]v1alpha1.WorkloadSpread, error) {
	var all []v1alpha1.WorkloadSpread
	var problems []document.Problem
	for i := range docs {
		object := *docs[i].Object.(*v1alpha1.WorkloadSpread)
		if object.Namespace == "" {
			object.Namespace = "default"
		}
		var errs []error
		if object.Name == "" {
			errs = append(errs, field.Required(field.NewPath("metadata", "name"), "must be the name of the WorkloadSpread"))
		}
		for _, err := range workloadspread.Validate(&object.Spec, nil) {
			errs = append(errs, err)
		}
		var others []v1alpha1.WorkloadSpread
		for _, other := range all {
			switch {
			case other.Namespace != object.Namespace:
			case other.Name == object.Name:
				errs = append(errs, field.Duplicate(field.NewPath("metadata", "name"), object.Namespace+"/"+object.Name))
			default:
				others = append(others, other)
			}
		}
		for _, err := range workloadspread.ValidateTarget(&object, others) {
			errs = append(errs, err)
		}
		problems = append(problems, docs[i].Refuse(errs...)...)
		all = append(all, object)
	}
	if len(problems) > 0 {
		return nil, &document.Invalid{Problems: problems}
	}
	return all, nil
}

// rescale lets the workload of the only WorkloadSpread have another number of replicas.
func rescale(setup *simulate.Setup, replicas int32) error {
	refuse := func(text string) error {
		return &usageError{errors.New(text), "it changes the replicas of the workload of one WorkloadSpread, which is read from objects with -f"}
	}
	if len(setup.Spreads) != 1 {
		return refuse(fmt.Sprintf("--replicas needs one WorkloadSpread, but there are %d", len(setup.Spreads)))
	}
	if setup.Spreads[0].Workload < 0 {
		return refuse("--replicas needs the workload of the WorkloadSpread among the objects")
	}
	if replicas < 0 || replicas > simulate.MaxPods {
		return refuse(fmt.Sprintf("--replicas is %d: it must be between 0 and %d", replicas, simulate.MaxPods))
	}
	w := &setup.Workloads[setup.Spreads[0].Workload]
	w.Steps = append(slices.Clip(w.Steps), simulate.Step{At: rescaledAt, Replicas: int(replicas)})
	return nil
}
