package fake

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/cloudprovider"
)

// The methods of the contract that a fault can affect and that a Call records.
const (
	MethodNodeGroups         = "NodeGroups"
	MethodNodeGroupForNode   = "NodeGroupForNode"
	MethodTargetSize         = "TargetSize"
	MethodIncreaseSize       = "IncreaseSize"
	MethodDecreaseTargetSize = "DecreaseTargetSize"
	MethodDeleteNodes        = "DeleteNodes"
	MethodNodes              = "Nodes"
	MethodTemplate           = "Template"
	MethodOptions            = "Options"
	MethodNodePrice          = "NodePrice"
	MethodPodPrice           = "PodPrice"
	MethodRefresh            = "Refresh"
	MethodCleanup            = "Cleanup"
)

var methods = []string{
	MethodNodeGroups, MethodNodeGroupForNode, MethodTargetSize, MethodIncreaseSize, MethodDecreaseTargetSize, MethodDeleteNodes,
	MethodNodes, MethodTemplate, MethodOptions, MethodNodePrice, MethodPodPrice, MethodRefresh, MethodCleanup,
}

// groupMethods are those about one group.
var groupMethods = []string{
	MethodTargetSize, MethodIncreaseSize, MethodDecreaseTargetSize, MethodDeleteNodes, MethodNodes, MethodTemplate, MethodOptions,
}

// Call is a call that the cloud has answered.
type Call struct {
	Method string
	Group  string        // empty for methods without a group
	Delta  int           // of IncreaseSize and DecreaseTargetSize
	Nodes  []string      // names of the nodes of DeleteNodes and NodeGroupForNode
	At     time.Time     // when the call came in
	Took   time.Duration // until it was answered
	Error  string        // empty for success
}

// Calls returns the calls answered so far, in the order of their answers.
func (c *Cloud) Calls() []Call {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := slices.Clone(c.calls)
	for i := range out {
		out[i].Nodes = slices.Clone(out[i].Nodes)
	}
	return out
}

// ForgetCalls empties the log of calls, which otherwise grows with every call, and returns how many were in it.
func (c *Cloud) ForgetCalls() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	forgotten := len(c.calls)
	c.calls = c.calls[:0]
	return forgotten
}

// Observe has every call reported when it comes in, and to the function returned once it is answered, instead
// of kept in the log. It must be called before the cloud is.
func (c *Cloud) Observe(observe func(Call) (answered func(Call))) { c.observe = observe }

// do runs a call: its effect on the group that it names, if any, with the lock held, before or after
// the effect of a fault, and its entry in the log.
func (c *Cloud) do(ctx context.Context, call Call, effect func(g *group, now time.Time) error) error {
	call.At = c.clock.Now()
	answered := func(call Call) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.calls = append(c.calls, call)
	}
	if c.observe != nil {
		answered = c.observe(call)
	}
	err := c.faulty(ctx, &call, func() error {
		c.mu.Lock()
		defer c.mu.Unlock()
		g, now := c.byID[call.Group], c.now()
		if g == nil && slices.Contains(groupMethods, call.Method) {
			return fmt.Errorf("%w: %q", cloudprovider.ErrNotFound, call.Group)
		}
		return effect(g, now)
	})
	call.Took = c.clock.Since(call.At)
	if err != nil {
		call.Error = err.Error()
	}
	answered(call)
	return err
}

// faulty runs the effect and the fault that affects the call, if any.
func (c *Cloud) faulty(ctx context.Context, call *Call, effect func() error) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("fake cloud: %s: %w", call.Method, err)
	}
	fault := c.faultFor(call)
	if fault == nil {
		return effect()
	}
	if fault.AfterEffect {
		if err := effect(); err != nil {
			return err
		}
	}
	if err := c.wait(ctx, durationOf(fault.Delay)); err != nil {
		return fmt.Errorf("fake cloud: %s: %w", call.Method, err)
	}
	switch {
	case fault.Error != "":
		return fmt.Errorf("fake cloud: %s: %w: %s", call.Method, cloudprovider.ErrUnavailable, fault.Error)
	case fault.AfterEffect:
		return nil
	}
	return effect()
}

// faultFor returns the first fault that affects the call, and counts the call.
func (c *Cloud) faultFor(call *Call) *v1alpha1.CallFault {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range c.faults {
		f := &c.faults[i]
		if !f.Contains(call.At.Sub(c.start)) || f.First > 0 && c.hits[i] >= f.First ||
			len(f.Methods) > 0 && !slices.Contains(f.Methods, call.Method) ||
			len(f.Groups) > 0 && !slices.Contains(f.Groups, call.Group) {
			continue
		}
		c.hits[i]++
		return f
	}
	return nil
}

type timeoutKey struct{}

// WithTimeout has the caller give up a call that takes longer on the cloud's clock, where
// context.WithTimeout counts real time.
func WithTimeout(ctx context.Context, timeout time.Duration) context.Context {
	return context.WithValue(ctx, timeoutKey{}, timeout)
}

func (c *Cloud) wait(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	timeout, limited := ctx.Value(timeoutKey{}).(time.Duration)
	late := limited && timeout < d
	if late {
		d = timeout
	}
	timer := c.clock.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C():
	case <-ctx.Done():
	}
	if late {
		return context.DeadlineExceeded
	}
	return ctx.Err()
}
