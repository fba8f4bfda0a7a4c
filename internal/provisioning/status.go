package provisioning

import (
	"errors"
	"time"

	"github.com/evenkeel/evenkeel/internal/autoscalerstatus"
)

// Where Cluster Autoscaler keeps its status, unless told otherwise, and the key of the text in the
// ConfigMap.
const (
	StatusNamespace = autoscalerstatus.Namespace
	StatusConfigMap = autoscalerstatus.ConfigMap
	StatusKey       = autoscalerstatus.Key
)

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
	// Since is when the state of its scale-ups changed last, since 1.35 in whole seconds.
	Since time.Time
	// Paused is true while it may not grow because a scale-up has failed.
	Paused bool
	// Full is true while it has as many nodes as it may have.
	Full bool
}

// ParseStatus reads the status of Cluster Autoscaler in the form of any release. One without a time is an
// error, as it may be of any moment.
func ParseStatus(text string) (Status, error) {
	read, err := autoscalerstatus.Parse(text)
	switch {
	case err != nil:
		return Status{}, err
	case read.Time.IsZero():
		return Status{}, errors.New("status of Cluster Autoscaler: it has no time, so nobody knows whether it is old")
	}
	s := Status{Time: read.Time, Groups: make(map[string]Group, len(read.Groups))}
	for _, g := range read.Groups {
		missing := g.Target - g.Ready - g.Unready - g.LongUnregistered
		// An autoscaler that was restarted does not remember what it ordered, but counts on the nodes.
		growing := g.ScaleUp == autoscalerstatus.InProgress || g.ScaleUp == autoscalerstatus.NoActivity && missing > 0
		s.Groups[g.Name] = Group{
			Growing: growing, Since: g.Since, Paused: g.Backoff != nil,
			Full: g.MaxSize > 0 && g.Target >= g.MaxSize,
		}
	}
	return s, nil
}
