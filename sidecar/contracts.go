package sidecar

import (
	"context"
	"errors"
	"time"
)

// ErrNotLeader is returned by a Journal when another replica of the autoscaler leads. Nothing was read or written.
var ErrNotLeader = errors.New("not the leading replica")

// Journal keeps what the sidecar must not forget where it survives the process and its node. It holds one text, below
// 512 KiB. Both methods answer ErrNotLeader (wrapped) where the autoscaler beside this sidecar does not lead, and are
// done when ctx is.
type Journal interface {
	// Load returns the text last saved by any replica; empty if there is none.
	Load(ctx context.Context) ([]byte, error)
	// Save replaces the text. It fails rather than overwrite what a replica that leads now has saved since the last
	// Load or Save of this process; the caller then loads again.
	Save(ctx context.Context, text []byte) error
}

// NodeState is what is known of a registered node.
type NodeState struct {
	ProviderID string
	Name       string
	Created    time.Time
	// Ready is what Cluster Autoscaler counts as ready: condition Ready is true, and no taint or condition
	// says that the node is not usable yet.
	Ready bool
	// Lost is that the node was in service and is not any more: its kubelet has ended or cannot be reached. It is not on
	// its way to become ready.
	Lost bool
}

// Nodes tells which nodes are registered and ready.
type Nodes interface {
	// List returns all registered nodes in any order; ok is false while they are not known (not synced yet).
	List() (nodes []NodeState, ok bool)
}

// Recorder makes decisions visible outside the process, as Kubernetes events. reason is CamelCase. It never blocks.
type Recorder interface {
	Event(warning bool, reason, message string)
}
