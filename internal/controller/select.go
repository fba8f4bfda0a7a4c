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
	// Name identifies the controller in flags, logs and metrics.
	Name() string
	// SetupWithManager registers the controller. It runs while the Manager leads.
	SetupWithManager(manager.Manager) error
}

// Select chooses controllers by name, as kube-controller-manager does: "*" means all, "name"
// includes a controller and "-name" excludes it. The first entry for a controller counts. An empty
// list means "*". The result is in the order of known. It is an error to name an unknown
// controller, or to choose none.
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
