package autoscalerstatus

import (
	"errors"
	"fmt"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// Where Cluster Autoscaler keeps its status, unless --namespace and --status-config-map-name say otherwise.
const (
	Namespace = "kube-system"
	ConfigMap = "cluster-autoscaler-status"
	// Key is the key of the status in the ConfigMap.
	Key = "status"
	// LastUpdated is the annotation of the ConfigMap with the time of the status; ParseTime reads it.
	LastUpdated = "cluster-autoscaler.kubernetes.io/last-updated"
)

// Holds reports whether a ConfigMap holds a status, which may have another name.
func Holds(m *v1.ConfigMap) bool { return m.Name == ConfigMap || m.Annotations[LastUpdated] != "" }

// Status is what Cluster Autoscaler says about itself. The package says of which moments its parts are.
type Status struct {
	// Time is when the loop began at whose end the status was written; of 1.29 and before, when it was written. It is
	// zero if the status does not say, as one that was written by hand.
	Time time.Time
	// Running is false until the first loop has ended.
	Running bool
	// Message is a remark on the whole; there is hardly ever one.
	Message string
	// Groups are the node groups, in the order of the status.
	Groups []Group
}

// ScaleUp is what the scale-ups of a group are doing.
type ScaleUp string

// Unhealthy is a group of which too many nodes are unready: it does not grow either.
const (
	InProgress ScaleUp = "InProgress"
	NoActivity ScaleUp = "NoActivity"
	InBackoff  ScaleUp = "Backoff"
	Unhealthy  ScaleUp = "Unhealthy"
)

// Group is one node group.
type Group struct {
	// Name is the id of the group at its cloud.
	Name string
	// Target is the target size.
	Target, MinSize, MaxSize int
	// These are nodes. Ready, NotStarted, Unready and BeingDeleted are nodes of the cluster; BeingDeleted ones
	// do not count in Target. Unregistered are instances that have no node yet, LongUnregistered those that
	// have had none for longer than --max-node-provision-time.
	Ready, NotStarted, Unready, LongUnregistered, Unregistered, BeingDeleted int
	// Healthy is false while too many of its nodes are unready.
	Healthy bool
	// ScaleUp is the state of its scale-ups, and Since when that state began. A group that waits for nodes is
	// InProgress, even if it may not be asked for more.
	ScaleUp ScaleUp
	Since   time.Time
	// Backoff is not nil while the group may not grow because a scale-up has failed.
	Backoff *Backoff
}

// CloudProviderError is the Code of an increase that the cloud has refused.
const CloudProviderError = "cloudProviderError"

// Backoff is why a group may not grow for a while.
type Backoff struct {
	// Code and Message are those of the failure, as far as the cloud gave any. The message may be cut off.
	Code, Message string
	// Since is when the loop began in which the backoff was seen first; it is not extended by a second failure.
	Since time.Time
}

// textPrefix begins the text of 1.29 and before.
const textPrefix = "Cluster-autoscaler status at "

// Parse reads the text under Key, in either form. It takes what it does not know as later additions, and
// returns an error that names the field if one has another type. There are no sentinel errors: a status that
// cannot be read is as good as none.
func Parse(data string) (*Status, error) {
	parse := parseYAML
	if strings.HasPrefix(data, textPrefix) {
		parse = parseText
	}
	s, err := parse(data)
	if err != nil {
		return nil, fmt.Errorf("status of Cluster Autoscaler: %w", err)
	}
	return s, nil
}

// ParseTime reads a time as Go prints it, whatever its zone and with a reading of the monotonic clock or
// without, or one of RFC 3339.
func ParseTime(text string) (time.Time, error) {
	if t, err := time.Parse(time.RFC3339, text); err == nil {
		return t, nil
	}
	// The name of the zone may be any word, and says nothing that the offset does not.
	words := strings.Fields(text)
	return time.Parse("2006-01-02 15:04:05 -0700", strings.Join(words[:min(3, len(words))], " "))
}

// document and the types below are what is read of the YAML. They have names for the sake of error messages.
type (
	document struct {
		Time             string  `json:"time"`
		AutoscalerStatus string  `json:"autoscalerStatus"`
		Message          string  `json:"message"`
		NodeGroups       []group `json:"nodeGroups"`
	}
	group struct {
		Name    string  `json:"name"`
		Health  health  `json:"health"`
		ScaleUp scaleUp `json:"scaleUp"`
	}
	health struct {
		Status              string `json:"status"`
		NodeCounts          counts `json:"nodeCounts"`
		CloudProviderTarget int    `json:"cloudProviderTarget"`
		MinSize             int    `json:"minSize"`
		MaxSize             int    `json:"maxSize"`
	}
	counts struct {
		Registered       registered `json:"registered"`
		LongUnregistered int        `json:"longUnregistered"`
		Unregistered     int        `json:"unregistered"`
	}
	registered struct {
		Ready        int     `json:"ready"`
		NotStarted   int     `json:"notStarted"`
		BeingDeleted int     `json:"beingDeleted"`
		Unready      unready `json:"unready"`
	}
	unready struct {
		Total int `json:"total"`
	}
	scaleUp struct {
		Status             string      `json:"status"`
		BackoffInfo        backoffInfo `json:"backoffInfo"`
		LastTransitionTime string      `json:"lastTransitionTime"`
	}
	backoffInfo struct {
		ErrorCode    string `json:"errorCode"`
		ErrorMessage string `json:"errorMessage"`
	}
)

// timeOf reads a time that may be missing.
func timeOf(text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	return ParseTime(text)
}

func parseYAML(data string) (*Status, error) {
	if strings.TrimSpace(data) == "" {
		return nil, errors.New("it is empty")
	}
	var d document
	if err := yaml.Unmarshal([]byte(data), &d); err != nil {
		return nil, err
	}
	s := &Status{Running: d.AutoscalerStatus == "Running", Message: d.Message}
	var err error
	if s.Time, err = timeOf(d.Time); err != nil {
		return nil, fmt.Errorf("time: %w", err)
	}
	for i, g := range d.NodeGroups {
		counts := g.Health.NodeCounts
		group := Group{
			Name: g.Name, Target: g.Health.CloudProviderTarget, MinSize: g.Health.MinSize, MaxSize: g.Health.MaxSize,
			Ready: counts.Registered.Ready, NotStarted: counts.Registered.NotStarted, Unready: counts.Registered.Unready.Total,
			LongUnregistered: counts.LongUnregistered, Unregistered: counts.Unregistered, BeingDeleted: counts.Registered.BeingDeleted,
			Healthy: g.Health.Status == "Healthy", ScaleUp: ScaleUp(g.ScaleUp.Status),
		}
		if group.Since, err = timeOf(g.ScaleUp.LastTransitionTime); err != nil {
			return nil, fmt.Errorf("nodeGroups[%d].scaleUp.lastTransitionTime: %w", i, err)
		}
		group.blocked(g.ScaleUp.BackoffInfo.ErrorCode, g.ScaleUp.BackoffInfo.ErrorMessage)
		s.Groups = append(s.Groups, group)
	}
	return s, nil
}

// blocked fills in the backoff of a group whose scale-ups are in one.
func (g *Group) blocked(code, message string) {
	g.Backoff = nil
	if g.ScaleUp == InBackoff {
		g.Backoff = &Backoff{Code: code, Message: message, Since: g.Since}
	}
}
