package doctor

import (
	"slices"

	"github.com/evenkeel/evenkeel/internal/document"
)

// Kind is the kind of a Diagnosis as a document.
const Kind = "ClusterDiagnosis"

// Diagnosis is a document.
type Diagnosis = document.Explanation[Result]

// Result is what was found.
type Result struct {
	// Answer is the recommendation in one sentence.
	Answer      string             `json:"verdict"`
	Autoscalers []AutoscalerResult `json:"autoscalers"`
	// Groups are the node groups by name, and Sets those of them that evenkeel takes for similar.
	Groups []GroupResult `json:"groups"`
	Sets   []SetResult   `json:"sets"`
	// Findings are what keeps the groups from being even, or Cluster Autoscaler from working.
	Findings       []Finding      `json:"findings"`
	Recommendation Recommendation `json:"recommendation"`
	// Simulated are the runs of the cluster's own pods in each mode, if the caller has played them.
	Simulated []Simulation `json:"simulated,omitempty"`
	Notes     []string     `json:"notes,omitempty"`
	// Trial says how such runs are played.
	Trial Trial `json:"-"`
}

// Trial is what a run in the place of Cluster Autoscaler needs to know of it.
type Trial struct {
	Minor int // of its release; 0 if it is unknown
	// Now are its flags, Recommended those with the recommendation, and Expander those with which it asks evenkeel expander.
	Now, Recommended, Expander Flags
	// IgnoreLabels make no difference to evenkeel here.
	IgnoreLabels []string
}

// AutoscalerResult is a Cluster Autoscaler. The fields after Image are those that its flags say, with
// their defaults.
type AutoscalerResult struct {
	Kind       string `json:"kind"`
	Namespace  string `json:"namespace,omitempty"`
	Name       string `json:"name,omitempty"`
	Image      string `json:"image,omitempty"`
	Version    string `json:"version,omitempty"`
	Provider   string `json:"provider,omitempty"`
	Balancing  bool   `json:"balancing"`
	Expander   string `json:"expander,omitempty"`
	AsksGRPC   bool   `json:"asksGRPC"`
	StatusTime string `json:"statusTime,omitempty"`
}

// GroupResult is a node group.
type GroupResult struct {
	Name  string   `json:"name"`
	Cloud string   `json:"cloudName,omitempty"` // where it is another one
	Zones []string `json:"zones,omitempty"`
	Size  int      `json:"size"`
	Ready int      `json:"ready"`
	Min   *int     `json:"min,omitempty"`
	Max   *int     `json:"max,omitempty"`
	State string   `json:"state,omitempty"` // of its scale-ups
}

// SetResult is a set of similar groups.
type SetResult struct {
	Groups []string `json:"groups"`
	Nodes  int      `json:"nodes"`
	// Apart is how many of the nodes would be in another group of the set if it were even within its bounds.
	Apart int `json:"nodesApart"`
	// Similar says that Cluster Autoscaler with its flags takes the groups for similar, but for labels in which nodes of one group
	// differ: these are in NodesDiffer.
	Similar bool `json:"similarToClusterAutoscaler"`
}

// Simulation is a run of the pods of a cluster, all of them pending, on its node groups without nodes.
type Simulation struct {
	Autoscaler string `json:"autoscaler"` // the mode, and with which flags
	Nodes      int    `json:"nodes"`
	Apart      int    `json:"nodesApart"`
	Running    int    `json:"running"`
	Pending    int    `json:"pending"`
	Wait       string `json:"p99Wait"`
}

// Severity is how much a finding matters.
type Severity string

// An error keeps Cluster Autoscaler, or its balancing, from working at all. A warning costs evenness or nodes.
const (
	Error   Severity = "Error"
	Warning Severity = "Warning"
)

// Way is how groups are kept even. A later way does more, and asks for more.
type Way string

// The ways, from the least to the most.
const (
	WayNothing    Way = "Nothing"
	WayAutoscaler Way = "ClusterAutoscaler" // its own flags
	WayExpander   Way = "Expander"
	WaySidecar    Way = "Sidecar"
	WayLinked     Way = "Linked"
)

var ways = []Way{WayNothing, WayAutoscaler, WayExpander, WaySidecar, WayLinked}

func (w Way) beyond(other Way) bool { return slices.Index(ways, w) > slices.Index(ways, other) }

// Reason says what a finding is about.
type Reason string

// The reasons. The documentation lists them, and a test compares.
const (
	NoAutoscaler       Reason = "NoAutoscaler"
	SeveralAutoscalers Reason = "SeveralAutoscalers"
	AutoscalerDown     Reason = "AutoscalerDown"
	NoStatus           Reason = "NoStatus"
	OldStatus          Reason = "OldStatus"
	NoGroups           Reason = "NoGroups"
	OldVersion         Reason = "OldVersion"
	IgnoredFlags       Reason = "IgnoredFlags"
	BalancingOff       Reason = "BalancingOff"
	NotSimilar         Reason = "NotSimilar"
	JoinedWrongly      Reason = "JoinedWrongly"
	NodesDiffer        Reason = "NodesDiffer"
	NotAsked           Reason = "NotAsked"
	AskedLate          Reason = "AskedLate"
	LargeScaleUps      Reason = "LargeScaleUps"
	SlowLoops          Reason = "SlowLoops"
	RequestTooLarge    Reason = "RequestTooLarge"
	Uneven             Reason = "Uneven"
	AtMaximum          Reason = "AtMaximum"
	QuotaReached       Reason = "QuotaReached"
	Backoff            Reason = "Backoff"
	NodesMissing       Reason = "NodesMissing"
	NodesUnready       Reason = "NodesUnready"
	SeveralZones       Reason = "SeveralZones"
	SpreadHeld         Reason = "SpreadHeld"
	MissingRights      Reason = "MissingRights"
)

// Finding is one thing that is wrong.
type Finding struct {
	Severity Severity `json:"severity"`
	Reason   Reason   `json:"reason"`
	Groups   []string `json:"groups,omitempty"`
	Message  string   `json:"message"`
	// Apart is how many nodes are in another group than in even sets because of it, or may be, and Pods how
	// many wait because of it.
	Apart int `json:"nodesApart,omitempty"`
	Pods  int `json:"pods,omitempty"`
	// Way is the least way that removes the finding; empty if none does.
	Way    Way      `json:"way,omitempty"`
	Flags  []string `json:"flags,omitempty"` // of Cluster Autoscaler
	Remedy string   `json:"remedy"`
}

// Recommendation is the least that removes all findings that a way removes.
type Recommendation struct {
	Way Way `json:"way"`
	// Flags are the flags of Cluster Autoscaler to set, and Without those to take away.
	Flags   []string `json:"flags,omitempty"`
	Without []string `json:"without,omitempty"`
	// Command sets them, where Cluster Autoscaler is a Deployment or StatefulSet whose flags are words of their own.
	Command string `json:"command,omitempty"`
	Text    string `json:"text"`
}

func (d *diagnoser) find(f Finding) {
	slices.Sort(f.Groups)
	f.Groups = slices.Compact(f.Groups)
	d.result.Findings = append(d.result.Findings, f)
}

func (d *diagnoser) note(text string) { d.result.Notes = append(d.result.Notes, text) }
