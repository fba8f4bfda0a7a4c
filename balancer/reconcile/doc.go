// Package reconcile drives package balancer in a cluster: for each Balancer that something may have changed for it reads the
// targets and their pods, asks for a decision, writes the sizes and stores the status.
//
// The Balancer and the Scales of its targets are read from the API server itself, so that no decision rests on what an
// earlier pass has since replaced; pods and the other Balancers come from the cache. Every write is refused by the API server
// if the object has changed since it was read. A pass follows a change of the Balancer, of a Balancer that claims the same
// target, of a target or of a pod as far as it counts; beyond that there is one only when time alone may change the decision,
// where something could not be read, written or watched. An idle cluster is written nothing.
//
// The package decides nothing about sizes, and knows no kind of target.
//
// # Rights
//
// In the namespaces that are watched:
//
//   - evenkeel.dev: balancers: get, list, watch, patch (patch only for those without spec.replicas); balancers/status: patch
//   - pods: get, list, watch
//   - the subresource scale of the kinds of targets, such as apps: deployments/scale: get, update
//   - the kinds of targets: list, watch; without them targets are polled
//   - events.k8s.io: events: create, patch
//
// # Metrics
//
// The names of all begin with evenkeel_balancers_, and gauges have the namespace and name of their Balancer. What begins with evenkeel_balancer_ is of the balancing processor of an
// autoscaler, and of other things.
package reconcile
