package controller

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// Controller is what a Manager runs.
type Controller interface {
	// Name selects it and tells it from others in logs and metrics.
	Name() string
	// SetupWithManager registers it. It runs once the Manager leads.
	SetupWithManager(manager.Manager) error
}

// Select chooses controllers by name, as kube-controller-manager does: "*" is every one, "name" that one, "-name" not
// that one, and the first that names a controller counts. No names are "*". The order is that of known. It is an error
// to name one that is not known, or to choose none.
func Select(known []Controller, names []string) ([]Controller, error) {
	every := len(names) == 0 || slices.Contains(names, "*")
	var all []string
	var chosen []Controller
	for _, c := range known {
		all = append(all, c.Name())
		first := slices.IndexFunc(names, func(name string) bool { return strings.TrimPrefix(name, "-") == c.Name() })
		if first < 0 && every || first >= 0 && names[first] == c.Name() {
			chosen = append(chosen, c)
		}
	}
	for _, name := range names {
		if name != "*" && !slices.Contains(all, strings.TrimPrefix(name, "-")) {
			return nil, fmt.Errorf("no controller %q: there are %s", strings.TrimPrefix(name, "-"), strings.Join(all, ", "))
		}
	}
	if len(chosen) == 0 {
		return nil, errors.New("no controller is chosen: there are " + strings.Join(all, ", "))
	}
	return chosen, nil
}
