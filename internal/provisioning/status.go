package provisioning

import (
	"errors"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// Where Cluster Autoscaler keeps its status, unless told otherwise, and the key of the text in the
// ConfigMap.
const (
	StatusNamespace = "kube-system"
	StatusConfigMap = "cluster-autoscaler-status"
	StatusKey       = "status"
)

// ErrOldStatus says that a status is of Cluster Autoscaler before 1.30, which writes prose.
var ErrOldStatus = errors.New("the status is of a Cluster Autoscaler before 1.30, which does not write YAML")

// Status is what Cluster Autoscaler says of itself.
type Status struct {
	// Time is the beginning of the loop at whose end it was written.
	Time time.Time
	// Groups are the node groups that it knows, by name.
	Groups map[string]Group
}

// Group is what Cluster Autoscaler says of a node group.
type Group struct {
	// Growing is true while a node is on its way.
	Growing bool
	// Since is when the state of its scale-ups changed last, in whole seconds.
	Since time.Time
	// Paused is true while it may not grow because a scale-up has failed.
	Paused bool
	// Full is true while it has as many nodes as it may have.
	Full bool
}

// statusText is the part of the status that matters.
type statusText struct {
	Time       string `json:"time"`
	NodeGroups []struct {
		Name   string `json:"name"`
		Health struct {
			NodeCounts struct {
				Registered struct {
					Ready   int `json:"ready"`
					Unready struct {
						Total int `json:"total"`
					} `json:"unready"`
				} `json:"registered"`
				LongUnregistered int `json:"longUnregistered"`
			} `json:"nodeCounts"`
			CloudProviderTarget int `json:"cloudProviderTarget"`
			MaxSize             int `json:"maxSize"`
		} `json:"health"`
		ScaleUp struct {
			Status             string      `json:"status"`
			LastTransitionTime metav1.Time `json:"lastTransitionTime"`
		} `json:"scaleUp"`
	} `json:"nodeGroups"`
}

// timeFormat is that of the time of a status.
const timeFormat = "2006-01-02 15:04:05.999999999 -0700 MST"

// ParseStatus reads the status of Cluster Autoscaler 1.30 and later. The error is ErrOldStatus, or says
// which field cannot be read.
func ParseStatus(text string) (Status, error) {
	if strings.HasPrefix(text, "Cluster-autoscaler status at ") {
		return Status{}, ErrOldStatus
	}
	var t statusText
	if err := yaml.Unmarshal([]byte(text), &t); err != nil {
		return Status{}, fmt.Errorf("the status of Cluster Autoscaler: %w", err)
	}
	at, err := time.Parse(timeFormat, t.Time)
	if err != nil {
		return Status{}, fmt.Errorf("the status of Cluster Autoscaler: time: %w", err)
	}
	s := Status{Time: at, Groups: make(map[string]Group, len(t.NodeGroups))}
	for _, g := range t.NodeGroups {
		counts := g.Health.NodeCounts
		missing := g.Health.CloudProviderTarget - counts.Registered.Ready - counts.Registered.Unready.Total - counts.LongUnregistered
		// An autoscaler that was restarted does not remember what it ordered, but counts on the nodes.
		growing := g.ScaleUp.Status == "InProgress" || g.ScaleUp.Status == "NoActivity" && missing > 0
		s.Groups[g.Name] = Group{
			Growing: growing, Since: g.ScaleUp.LastTransitionTime.Time,
			Paused: g.ScaleUp.Status == "Backoff", Full: g.Health.MaxSize > 0 && g.Health.CloudProviderTarget >= g.Health.MaxSize,
		}
	}
	return s, nil
}
