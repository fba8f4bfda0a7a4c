package federation

import (
	"fmt"
	"time"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/replica"
)

// lookForOthers takes in whether something else also writes the local object, such as a
// HorizontalPodAutoscaler in the cluster. What is changed now and then is put right. What is changed
// again and again is put right less often, and counts with its share meanwhile, if it has as many.
func (p *pass) lookForOthers(m *member, before *v1alpha1.FederatedClusterStatus) {
	others := replica.StoredOverwrites(before.Overwrites, p.in.Now)
	others = replica.UpdateOverwrites(others, m.overwritten(before), p.in.Generation, &p.timer)
	if m.Local.edited() {
		m.health.Added = max(0, m.Local.Replicas-*m.Local.Written)
	}
	if m.status.Overwrites = others; !m.Local.Exists || !replica.LeftAlone(others) {
		return
	}
	m.health.Contested, m.health.Share, m.found = true, before.Desired, m.Local.Replicas
	m.status.Reason = ReasonSecondWriter
	m.status.Message = fmt.Sprintf("something else also writes its %s, %d times so far: remove its HorizontalPodAutoscaler, or whatever applies its manifest; "+
		"what it has beyond its share does not count, and it is written again at %s, or when the FederatedReplicaSet is changed", p.kind(), others.Count, others.LeftAloneUntil.UTC().Format(time.RFC3339))
}

// overwritten reports whether something else has changed the local object since the last decision.
func (m *member) overwritten(before *v1alpha1.FederatedClusterStatus) bool {
	l := &m.Local
	number := l.edited() && l.Replicas != before.Written
	content := l.Exists && (l.Foreign || l.Revision == "") && before.Revision != ""
	return m.before != nil && (number || content)
}

func (p *pass) kind() v1alpha1.LocalKind {
	if p.in.Spec.LocalKind == v1alpha1.LocalDeployment {
		return v1alpha1.LocalDeployment
	}
	return v1alpha1.LocalReplicaSet
}
