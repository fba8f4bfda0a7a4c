package sidecar

import (
	"context"

	"github.com/evenkeel/evenkeel/steering"
)

// ErrNotLeader is returned by a Journal when another replica of the autoscaler leads. Nothing was
// read or written.
var ErrNotLeader = steering.ErrNotLeader

// Journal keeps what the sidecar must not forget where it survives the process and its node. It
// holds one text, below 512 KiB. Both methods answer ErrNotLeader (wrapped) where the autoscaler
// beside this sidecar does not lead, and are done when ctx is.
type Journal interface {
	// Load returns the text last saved by any replica; empty if there is none.
	Load(ctx context.Context) ([]byte, error)
	// Save replaces the text. It fails rather than overwrite what a replica that leads now has
	// saved since the last Load or Save of this process; the caller then loads again.
	Save(ctx context.Context, text []byte) error
}

// Nodes reports which nodes are registered and ready.
type Nodes interface {
	// List returns all registered nodes in any order; ok is false while they are not known (not
	// synced yet).
	List() (nodes []steering.NodeState, ok bool)
}

// Followed is configuration that may change.
type Followed[T any] interface {
	// Changed returns the configuration if it has changed since it was last called. An error is
	// returned once for what it is about; what was configured before holds on then.
	Changed() (value T, changed bool, err error)
}

// PodNotices takes what is done about pods that wait for nodes. It never blocks.
type PodNotices interface {
	Set(notices []steering.Notice)
}

// Recorder makes decisions visible outside the process, as Kubernetes events. reason is CamelCase.
// It never blocks.
type Recorder interface {
	Event(warning bool, reason, message string)
}
