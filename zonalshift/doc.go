// Package zonalshift decides what holds while a failure domain, a zone by default, is shifted away
// from: which node groups do not grow, which do not shrink, and how fast a domain that has come
// back catches up with the others of its sets.
//
// A domain is marked by a user, or detected: too many of its nodes are not ready, or all its node
// groups refuse to grow. Marks are taken in order, those of users first and the older ones before
// the younger, and one that would leave a set without a member that may grow does not apply to that
// set. So no set starves.
//
// While a domain is shifted away, its groups do not grow, and no member of their sets shrinks: the
// others carry its load. Afterwards its groups count as larger than they are in every split, by what
// they may not catch up yet. That shrinks by at most a pace per interval, and never with time alone.
//
// The package reads no clock, file or cluster, and does not know how a split is made. The time of
// each call is handed in and never goes back. It is not safe for concurrent use.
package zonalshift
