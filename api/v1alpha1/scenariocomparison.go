package v1alpha1

import (
	"encoding/json"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// KindScenarioComparison is the kind of the answer to a Scenario that was played several times.
const KindScenarioComparison = "ScenarioComparison"

// ScenarioComparison is what differs when a Scenario is played again with other options. It has the
// scenario's name.
type ScenarioComparison struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitzero"`

	Status ScenarioComparisonStatus `json:"status"`
}

// ScenarioComparisonStatus is the content of a ScenarioComparison.
type ScenarioComparisonStatus struct {
	// Options that were changed.
	Options []ChangedOption `json:"options"`
	// Figures of both, the same in the same order for every comparison, except cost, which needs
	// prices.
	Figures []ComparedFigure `json:"figures"`
	// Groups are the sizes at the end, of all node groups by name.
	Groups []ComparedGroup `json:"groups"`
	// Baseline and Changed are the reports of the scenario as it is, and with the changed options.
	Baseline ScenarioReportStatus `json:"baseline"`
	Changed  ScenarioReportStatus `json:"changed"`
	// Further are the reports with the further values of an option, in their order.
	Further []ScenarioReportStatus `json:"further,omitempty"`
}

// ChangedOption is one of spec.options with its two values, and further ones; an empty one means the default.
type ChangedOption struct {
	Name     string          `json:"name"`
	Baseline json.RawMessage `json:"baseline,omitempty"`
	Changed  json.RawMessage `json:"changed,omitempty"`
	// Further are the third value and so on.
	Further []json.RawMessage `json:"further,omitempty"`
}

// ComparedFigure is a number of both reports, and the second minus the first.
type ComparedFigure struct {
	Name       string      `json:"name"`
	Baseline   json.Number `json:"baseline"`
	Changed    json.Number `json:"changed"`
	Difference json.Number `json:"difference"`
	// Further are those of the further reports.
	Further []json.Number `json:"further,omitempty"`
}

// ComparedGroup is the size of a node group at the end of both.
type ComparedGroup struct {
	Name       string `json:"name"`
	Zone       string `json:"zone,omitempty"`
	Before     int    `json:"before"`
	Baseline   int    `json:"baseline"`
	Changed    int    `json:"changed"`
	Difference int    `json:"difference"`
	// Further are the sizes at the end of the further reports.
	Further []int `json:"further,omitempty"`
}
