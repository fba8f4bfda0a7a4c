package cloudprovider

import (
	"context"

	v1 "k8s.io/api/core/v1"
)

// Provider is what a cloud implements. All methods may be called at the same
// time from several goroutines. They return when ctx is done, with its error.
//
// A method that takes the id of a node group returns ErrNotFound for an unknown one. The caller
// owns what methods return and may change it; methods never change their arguments.
//
// Sizes, deltas and bounds fit into 32 bits, as on the wire.
type Provider interface {
	// NodeGroups lists the node groups, sorted by id. The list stays the same
	// until the next Refresh: callers read bounds once per loop.
	NodeGroups(ctx context.Context) ([]NodeGroup, error)

	// NodeGroupForNode names the node group a node belongs to. ok is false, with
	// no error, for a node that belongs to none. The node is recognised by
	// spec.providerID. It may be a fake node (see FakeNode), which has neither
	// the labels nor the resources of the real one.
	NodeGroupForNode(ctx context.Context, node *v1.Node) (id string, ok bool, err error)

	// TargetSize returns the number of nodes the group should have. It shows the effect of
	// IncreaseSize, DecreaseTargetSize and DeleteNodes as soon as they have returned, because
	// callers read it again within the same loop.
	TargetSize(ctx context.Context, id string) (int, error)

	// IncreaseSize raises the target size by delta, which must be positive (else ErrInvalidDelta),
	// and returns without waiting for the nodes. An increase that would end above the group's
	// maximum is refused as a whole with ErrAboveMax; so a group that is already above it refuses
	// all of them. After an error for which Refused is true the target size is what it was.
	IncreaseSize(ctx context.Context, id string, delta int) error

	// DecreaseTargetSize cancels orders of nodes that do not exist yet. delta is negative (else
	// ErrInvalidDelta). It never deletes an instance: a decrease below the number of instances is
	// either refused with ErrInvalidDelta, or reduced to what is unfulfilled.
	DecreaseTargetSize(ctx context.Context, id string, delta int) error

	// DeleteNodes deletes these nodes and lowers the target size by their number. It returns
	// without waiting for them to be gone. Nodes that do not belong to the group make it fail with
	// ErrNotInGroup before anything is deleted; nodes that are already being deleted are ignored. A
	// cloud may refuse to go below the group's minimum, with ErrBelowMin. Nodes may be fake nodes.
	DeleteNodes(ctx context.Context, id string, nodes []*v1.Node) error

	// Nodes lists the group's instances, registered as nodes or not, including
	// those being created, those that failed and those being deleted.
	Nodes(ctx context.Context, id string) ([]Instance, error)

	// Template describes the next node of the group. It is needed for groups without nodes. A cloud
	// that does not know it returns ErrNotImplemented.
	Template(ctx context.Context, id string) (Template, error)

	// Options returns the group's own settings, with defaults for those it does not set. A group
	// without settings may return ErrNotImplemented, which means defaults. A duration of zero means
	// zero, not the default.
	Options(ctx context.Context, id string, defaults GroupOptions) (GroupOptions, error)

	// Refresh is called at the start of every loop, before anything is read. An
	// error skips the loop, so this is the place to report an unhealthy backend.
	// Refreshing twice changes no more than refreshing once.
	Refresh(ctx context.Context) error

	// Cleanup releases the provider's resources. No method is called after it.
	Cleanup(ctx context.Context) error
}

// GPUs is implemented by providers that know about GPUs.
type GPUs interface {
	// GPULabel is the label of nodes with a GPU; empty for none.
	GPULabel(ctx context.Context) (string, error)
	// GPUTypes lists the types of GPU the cloud offers, sorted.
	GPUTypes(ctx context.Context) ([]string, error)
}
