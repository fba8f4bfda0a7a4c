package webhooks

import (
	"context"
	"time"
)

// Sync passes until no other replica is faster.
func (k *Keeper) Sync(ctx context.Context) time.Duration { return k.sync(ctx) }

// Settle and Retain are the waits of a rotation.
func (k *Keeper) Settle() time.Duration { return k.rotation.propagation() }
func (k *Keeper) Retain() time.Duration { return k.rotation.retain() }
