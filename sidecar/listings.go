package sidecar

import (
	"maps"
	"time"

	"github.com/evenkeel/evenkeel/cloudprovider"
)

// Cluster Autoscaler keeps the instances of a group as the provider has listed them. It asks for them
// anew
//
//   - every two minutes, for all groups one after the other, beside its loops;
//   - in each loop, for the groups that it believes to be scaling up: those it holds a request for,
//     in which it counted fewer nodes than the target size in the loop before;
//   - in the loop after it has deleted instances that failed or never registered, and in the first one
//     in which it sees the group.
//
// Orders, and the removal of nodes that run, do not make it ask.
//
// The sidecar lists instances at the start of a loop, to find those that failed before Cluster
// Autoscaler sees them, and answers its questions from that. It calls the cloud no more often than
// Cluster Autoscaler would, since each listing takes the place of a question, be it one that is sure
// to come in the same loop. Groups of which nothing is on its way are spared, so that there is a
// question to spend when one of them changes. And loop follows loop while a split is ordered, one per
// member, where Cluster Autoscaler alone would order all in one: what was just listed is left as it is,
// unless it was increased since.

const (
	// listedJustNow is how soon a group is not listed again: half the usual time between loops.
	listedJustNow = 5 * time.Second
	// listedLongAgo is the age from which on Cluster Autoscaler calls its own list stale.
	listedLongAgo = 5 * time.Minute
)

// listings knows which groups' instances to list, by group.
type listings map[string]*listing

// listing is the last one of a group.
type listing struct {
	at    time.Time
	asked time.Time // when Cluster Autoscaler last asked
	// saved counts the questions that no listing has taken the place of. It is -1 while the last
	// listing is ahead of its question, and 1 at most: what is saved is for one change of the group.
	saved int
	// again is that Cluster Autoscaler has asked since, and increased that it has increased the group: then it
	// asks in the next loop, since instances count for it from when they are first listed.
	again, increased bool
	err              error // why it failed; then it is made again in place of the next question
}

// noteAsked takes in a question of Cluster Autoscaler for a group's instances.
func (l listings) noteAsked(group string, now time.Time) {
	if last := l[group]; last != nil {
		last.asked, last.saved, last.again = now, min(last.saved+1, 1), true
	}
}

// noteIncreased takes in an increase that was answered with success.
func (l listings) noteIncreased(group string) {
	if last := l[group]; last != nil {
		last.increased = true
	}
}

// due reports whether a group is listed now. It is settled if nothing of it is on its way or missing; then
// it is listed at times, after a question in the loop before, which began at a given time.
func (l listings) due(group string, settled bool, before, now time.Time) bool {
	last := l[group]
	switch {
	case last == nil:
		return true
	case settled && last.err == nil:
		return now.Sub(last.at) >= listedLongAgo && !last.asked.Before(before)
	}
	return last.saved >= 0 && (last.increased || last.again && now.Sub(last.at) >= listedJustNow)
}

// noteListed takes in that a group is listed now, with whatever result.
func (l listings) noteListed(group string, now time.Time) {
	next := &listing{at: now, saved: -1}
	if last := l[group]; last != nil {
		next.asked, next.saved = last.asked, max(last.saved-1, -1)
	}
	l[group] = next
}

// keep forgets groups that are gone.
func (l listings) keep(groups []cloudprovider.NodeGroup) {
	there := make(map[string]bool, len(groups))
	for i := range groups {
		there[groups[i].ID] = true
	}
	maps.DeleteFunc(l, func(group string, _ *listing) bool { return !there[group] })
}
