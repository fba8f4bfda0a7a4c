package steering

import (
	"time"

	"github.com/evenkeel/evenkeel/nodegroupset"
)

// Status is what the sidecar knows and last decided, for people and programs. It shares nothing
// with the sidecar.
type Status struct {
	Time        time.Time            `json:"time"`
	Mode        string               `json:"mode"`                  // Steering, DryRun, PassThrough
	ModeReason  string               `json:"modeReason,omitempty"`  // why not steering
	Ready       bool                 `json:"ready"`                 // whether Cluster Autoscaler is served
	NotReady    string               `json:"notReady,omitempty"`    // why not
	Autoscaler  string               `json:"autoscaler,omitempty"`  // what is known of the autoscaler: when its process was first seen
	LastRefresh time.Time            `json:"lastRefresh,omitzero"`  // of the cloud's state
	RefreshTook string               `json:"refreshTook,omitempty"` // a duration such as 120ms
	Journal     string               `json:"journal,omitempty"`     // where it is kept, or why it cannot be
	Groups      []GroupStatus        `json:"groups"`                // by name
	Sets        [][]string           `json:"sets"`                  // groups similar to each other, as last seen
	Policies    []PolicyStatus       `json:"policies,omitempty"`    // declared sets, by name
	Refused     string               `json:"refused,omitempty"`     // why newer policies are not used
	Plan        *PlanStatus          `json:"plan,omitempty"`        // the split being carried out
	Uneven      []UnevenStatus       `json:"uneven,omitempty"`      // sets that are not level, by name
	Withheld    *WithheldStatus      `json:"withheld,omitempty"`    // what the last loop asked for and did not get
	ZonalShift  *ZonalShiftStatus    `json:"zonalShift,omitempty"`  // zones that are shifted away
	Decisions   []Decision           `json:"decisions"`             // the newest first, at most 100
	InFull      []Decision           `json:"inFull,omitempty"`      // the last increases granted in full instead of split, at most 10
	Apart       []ApartStatus        `json:"apart,omitempty"`       // nearly similar groups and what keeps them apart
	Warnings    []string             `json:"warnings,omitempty"`    // what somebody should look at
	Suggestion  *nodegroupset.Remedy `json:"suggestion,omitempty"`  // the flags that would join the most sets
}

// GroupStatus is one node group.
type GroupStatus struct {
	Name     string `json:"name"`
	Set      string `json:"set,omitempty"` // the first group of its set
	Zone     string `json:"zone,omitempty"`
	Size     int    `json:"size"` // target size
	Min      int    `json:"min"`
	Max      int    `json:"max"`
	Ready    int    `json:"ready"`              // registered and ready nodes
	InFlight int    `json:"inFlight"`           // ordered and not ready yet
	Unseen   int    `json:"unseen,omitempty"`   // of those, what Cluster Autoscaler cannot see
	Broken   int    `json:"broken,omitempty"`   // nodes that were ready and are not any more
	Floor    int    `json:"floor,omitempty"`    // the minimum that Cluster Autoscaler is given where it is above the real one
	FloorWhy string `json:"floorWhy,omitempty"` // why, and until when at most
	Backoff  string `json:"backoff,omitempty"`  // why nothing is ordered here: what failed, first when, and when it is tried again
	Shifted  string `json:"shifted,omitempty"`  // why nothing is ordered here: its zone is shifted away
	Lag      int    `json:"lag,omitempty"`      // by how much it counts as larger, since its zone has come back lately
	Limited  string `json:"limited,omitempty"`  // why no more than one node is, as long as others can take the rest
	Problem  string `json:"problem,omitempty"`  // what is wrong with its template or its answers
}

// WithheldStatus is what pods wait for.
type WithheldStatus struct {
	Nodes int      `json:"nodes"`
	Pods  int      `json:"pods"` // that need them, about
	Sets  []string `json:"sets"` // any of which may grow for them, by first group
}

// PlanStatus is a split that is being carried out, one member after the other.
type PlanStatus struct {
	Since   time.Time    `json:"since"`
	Chosen  string       `json:"chosen"`
	Why     string       `json:"why"` // how the expander chose
	Need    int          `json:"need"`
	Granted int          `json:"granted"`
	Members []PlanMember `json:"members"`
}

// PlanMember is the part of one group in a split.
type PlanMember struct {
	Name    string `json:"name"`
	Size    int    `json:"size"`          // when the split was last worked out
	NewSize int    `json:"newSize"`       // what it is meant to become
	Why     string `json:"why,omitempty"` // what held it, or why it takes no part
}

// Decision is one answer to Cluster Autoscaler that had to be decided.
type Decision struct {
	Time    time.Time    `json:"time"`
	Call    string       `json:"call"` // BestOptions, IncreaseSize, DecreaseTargetSize, Refresh
	Group   string       `json:"group,omitempty"`
	Asked   int          `json:"asked,omitempty"`
	Granted int          `json:"granted"`
	Reason  string       `json:"reason"` // one sentence
	Error   string       `json:"error,omitempty"`
	InFull  bool         `json:"inFull,omitempty"` // granted in full although it should have been split: the set may be uneven
	Members []PlanMember `json:"members,omitempty"`
}

// ApartStatus is two sets that are nearly one.
type ApartStatus struct {
	nodegroupset.Pair
	Remedy nodegroupset.Remedy `json:"remedy"`
}
