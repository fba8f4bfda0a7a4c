package sidecar

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/evenkeel/evenkeel/cloudprovider"
	"github.com/evenkeel/evenkeel/steering"
)

// margin is how long before the deadline of a call its answer must be given to count as received.
const margin = 500 * time.Millisecond

// IncreaseSize implements cloudprovider.Provider: it grants the group its share of the split and
// answers with success. Cluster Autoscaler sees how far the target size has risen and comes back
// for the rest.
func (s *Sidecar) IncreaseSize(ctx context.Context, id string, delta int) error {
	if delta <= 0 {
		return fmt.Errorf("node group %q: increase by %d: %w", id, delta, cloudprovider.ErrInvalidDelta)
	}
	s.called(ctx, steering.OtherCall, "")
	s.awaitQuestions(ctx)
	if err := s.turn.Acquire(ctx, 1); err != nil {
		return err
	}
	defer s.turn.Release(1)
	if err := ctx.Err(); err != nil {
		return err // Cluster Autoscaler takes it for refused
	}
	if _, err := s.group(ctx, id); err != nil {
		return err
	}
	s.retryJournal(ctx)
	granted := s.step(steering.Increase{Group: id, Delta: delta})
	err := granted.Err
	if granted.Nodes > 0 {
		err = s.order(ctx, id)
	}
	left, limited := left(ctx)
	received := ctx.Err() == nil && (!limited || left >= margin)
	s.mu.Lock()
	defer s.mu.Unlock()
	err = s.apply(steering.Answered{Err: err, Received: received, Connection: s.o.Connection(ctx)}).Err
	if err == nil && granted.Nodes > 0 {
		s.listings.noteIncreased(id)
	}
	return err
}

// order writes a grant down and orders it. Nothing is ordered for a caller that has stopped waiting
// meanwhile.
func (s *Sidecar) order(ctx context.Context, id string) error {
	journalErr := s.saveJournal(ctx)
	if left, limited := left(ctx); ctx.Err() != nil || limited && left <= 0 {
		s.step(steering.Withdraw{})
		return context.DeadlineExceeded
	}
	granted := s.step(steering.Order{JournalErr: journalErr})
	if granted.Nodes == 0 {
		return granted.Err
	}
	return s.place(ctx, id, granted)
}

// place orders nodes from the cloud. If the cloud is slower than Cluster Autoscaler waits, the
// order goes on, and its nodes count as ordered until it ends. A failure that may be hidden from
// Cluster Autoscaler is then answered early, with success.
func (s *Sidecar) place(ctx context.Context, id string, granted steering.Answer) error {
	ended := make(chan error, 1)
	s.orders.Go(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.o.BackendTimeout)
		defer cancel()
		err := s.backend.IncreaseSize(ctx, id, granted.Nodes)
		ended <- s.orderEnded(ctx, id, err)
	})
	out, stop := s.answerTimer(ctx)
	defer stop()
	select {
	case err := <-ended:
		return err
	case <-out:
	case <-ctx.Done():
	}
	if granted.Hide {
		return nil
	}
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// orderEnded reports to the state how an order ended. It returns the error of an order that was refused.
func (s *Sidecar) orderEnded(ctx context.Context, id string, err error) error {
	target, readErr := 0, errors.New("not read")
	if err != nil && !cloudprovider.Refused(err) {
		target, readErr = s.backend.TargetSize(ctx, id)
	}
	return s.step(steering.OrderEnded{Group: id, Err: err, Target: target, ReadErr: readErr}).Err
}

// DecreaseTargetSize implements cloudprovider.Provider. It takes back no more than what has no
// instance yet.
func (s *Sidecar) DecreaseTargetSize(ctx context.Context, id string, delta int) error {
	if delta >= 0 {
		return fmt.Errorf("node group %q: decrease by %d: %w", id, delta, cloudprovider.ErrInvalidDelta)
	}
	reason := "passed on"
	if !s.o.DryRun {
		s.mu.Lock()
		s.listings.noteListed(id, s.o.Clock.Now())
		s.mu.Unlock()
		instances, err := s.backend.Nodes(ctx, id)
		if err != nil {
			return err
		}
		target, err := s.backend.TargetSize(ctx, id)
		if err != nil {
			return err
		}
		cut := s.observe(steering.Decrease{Group: id, Delta: delta, Target: target, Instances: instances})
		delta, reason = cut.Nodes, cut.Reason
	}
	if delta == 0 {
		return nil
	}
	err := s.backend.DecreaseTargetSize(ctx, id, delta)
	s.step(steering.Decreased{Group: id, Delta: delta, Reason: reason, Err: err})
	return err
}

// DeleteNodes implements cloudprovider.Provider. The cloud does not know of placeholders.
func (s *Sidecar) DeleteNodes(ctx context.Context, id string, nodes []*v1.Node) error {
	nodes = slices.DeleteFunc(slices.Clone(nodes), func(node *v1.Node) bool {
		_, placeholder := steering.PlaceholderOf(node.Spec.ProviderID)
		return placeholder
	})
	if len(nodes) == 0 {
		return nil
	}
	if err := s.backend.DeleteNodes(ctx, id, nodes); err != nil {
		return err
	}
	target, err := s.backend.TargetSize(ctx, id)
	s.step(steering.NodesDeleted{Group: id, Nodes: nodes, Target: target, ReadErr: err})
	return nil
}
