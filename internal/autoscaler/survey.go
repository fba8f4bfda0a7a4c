package autoscaler

import (
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/evenkeel/evenkeel/cloudprovider"
	"github.com/evenkeel/evenkeel/zonalshift"
)

// Survey is what a loop sees.
type Survey struct {
	Now     time.Time
	Groups  []Group // by name
	Pending []*v1.Pod
	// Shift is what follows from zones that are shifted away, or were.
	Shift zonalshift.Decision
}

// Group is one node group as the cloud and the cluster show it.
type Group struct {
	ID  string
	Max int
	// Target is the size the cloud works towards.
	Target int
	// Upcoming nodes were ordered and are not ready yet.
	Upcoming int
	// Template is nil where neither a node nor the cloud gives one.
	Template *cloudprovider.Template
	// TemplateFrom names where the template comes from: "node NAME", "cloud",
	// or "cloud, completed from GROUP (ephemeral-storage)".
	TemplateFrom string
	// Price of one node for one hour, where HasPrice.
	Price    cloudprovider.Price
	HasPrice bool
	// AllOrNothing groups are either empty or at their maximum.
	AllOrNothing bool
	// BackedOffUntil is set while a refusal keeps the group from growing.
	BackedOffUntil time.Time
	BackoffReason  string
	// Err is what could not be read of the group.
	Err error
	// Away says why the group does not grow while its zone is shifted away.
	Away string
}
