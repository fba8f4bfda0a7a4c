package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// KindZonalShift is the kind of a ZonalShift, a file or the text in a ConfigMap.
const KindZonalShift = "ZonalShift"

// ZonalShift lists the failure domains that are shifted away: no node group grows there.
type ZonalShift struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitzero"`

	Spec ZonalShiftSpec `json:"spec"`
}

// ZonalShiftSpec is what is shifted away.
type ZonalShiftSpec struct {
	// Shifts have each domain once.
	Shifts []DomainShift `json:"shifts,omitempty"`
}

// DomainShift is one failure domain that is shifted away.
type DomainShift struct {
	// Name is the value of the label, such as the name of a zone.
	Name string `json:"name"`
	// TopologyKey is the label; empty means topology.kubernetes.io/zone.
	TopologyKey string `json:"topologyKey,omitempty"`
	// Reason is for people.
	Reason string `json:"reason,omitempty"`
	// Since is when the shift begins; nil means that it has always been there.
	Since *metav1.Time `json:"since,omitempty"`
	// Until is when the shift ends by itself; nil means that it does not.
	Until *metav1.Time `json:"until,omitempty"`
}
