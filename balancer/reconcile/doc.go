// Package reconcile drives package balancer in a cluster: for each Balancer that something may have
// changed for, it reads the targets and their pods, asks for a decision, writes the sizes and
// stores the status.
//
// The Balancer and the Scales of its targets are read from the API server, so that no decision
// rests on what an earlier pass has replaced since. Pods and the other Balancers come from the
// cache. Pods that a smaller size of a target may still take away do not count as if they were to
// stay, even if a larger one follows. The API server refuses every write if the object has changed
// since it was read. A pass follows a change of the Balancer, of a Balancer that has the same target,
// of a target, or of a pod if the change matters. Other passes are made only when time alone may
// change the decision, or when something could not be read, written or watched. In an idle cluster
// nothing is written.
//
// The package decides nothing about sizes, and knows no kind of target.
//
// The rights that it needs are on the page about the controller, docs/controller.md.
package reconcile
