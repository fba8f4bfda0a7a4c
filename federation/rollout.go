package federation

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/internal/spelling"
	"github.com/evenkeel/evenkeel/podhealth"
	"github.com/evenkeel/evenkeel/replica"
)

// A Deployment that replaces its pods needs room for those that it starts before others stop, and it
// stops none while too few run. Where a cluster is full, a replica that waits, such as the probe,
// could keep it from ever finishing. So during a rollout a cluster is asked for what it is known to
// be able to run and no more, and what the rollout itself does to its pods does not change what is
// known.

// observeRollout records whether a cluster replaces pods of an earlier template.
func (p *pass) observeRollout(m *member) {
	l, before := &m.Local, &m.before
	switch {
	case p.in.Spec.LocalKind != v1alpha1.LocalDeployment || !l.Exists || l.RolledOut:
	case before.RollingSince != nil:
		m.status.RollingSince = podhealth.NotAfter(before.RollingSince, p.in.Now)
	case l.Outdated > 0:
		m.status.RollingSince = podhealth.Stamp(p.in.Now)
	}
}

// countInRollout counts the pods of a cluster during a rollout. New pods that wait while a
// Deployment keeps as many running as it has to are a part of that. Only if fewer run for as long as
// pods have to start, or if it cannot go on, the cluster is able to run no more.
func (p *pass) countInRollout(m *member) {
	m.waits = m.Local.Normal.Late > 0
	m.health.Now = replica.Health{Size: m.found, Running: m.Local.Act.Running}
	if m.steady() {
		return
	}
	counts := m.Local.Act
	if !m.stalled() {
		counts.Late, counts.NextLate = 0, time.Time{}
	}
	m.health.Now = replica.Observe(m.health.Before, m.found, counts, &p.timer)
}

// steady reports whether a cluster is in a rollout and runs what it has to meanwhile.
func (m *member) steady() bool {
	return m.status.RollingSince != nil && !m.health.Pinned && m.status.Refused == nil && m.health.Now.Running >= m.least() && !m.stalled()
}

// stalled reports whether a Deployment cannot go on because there is no room: no more run than have
// to, and all others have had no node for longer than pods have to start.
func (m *member) stalled() bool {
	c := m.Local.Act
	return c.Running <= m.least() && c.Running < m.found && m.Local.Failing == 0 && c.Late > 0 && c.Late == c.Existing-c.Running
}

// least is how many replicas a Deployment keeps running while it replaces pods, where all that the
// cluster is known to be able to run did so before.
func (m *member) least() int32 {
	size := m.found
	if c := m.health.Before.Capacity; c != nil {
		size = min(size, *c)
	}
	return size - m.unavailable(size)
}

// unavailable is how many of so many replicas a Deployment may have out of service during a rollout.
func (m *member) unavailable(size int32) int32 {
	most := ptr.Deref(m.Local.MaxUnavailable, intstr.FromString("25%"))
	n, err := intstr.GetScaledValueFromIntOrPercent(&most, int(size), false)
	if err != nil {
		return 0
	}
	return replica.Clip(min(int64(n), int64(size)))
}

// makeRoom returns the number to write to a cluster that is to have a number of replicas. One that
// is full and must not have a replica out of service could start no pod with the new template: it
// gets one replica fewer until the rollout is over. It keeps its last one unless others run
// elsewhere.
func (p *pass) makeRoom(m *member, to int32) int32 {
	if m.status.RollingSince == nil || to == 0 || m.unavailable(to) > 0 || to == 1 && !p.runsElsewhere(m) {
		return to
	}
	c := m.status.Capacity
	if c == nil && (m.found == to-1 || m.found == to && m.nodeless() > 0) || c != nil && to >= *c {
		return to - 1
	}
	return to
}

// nodeless is how many pods have had no node for longer than pods have to start.
func (m *member) nodeless() int32 { return max(0, m.Local.Act.Late-m.Local.Failing) }

func (p *pass) runsElsewhere(m *member) bool {
	return slices.ContainsFunc(p.members, func(o member) bool { return o.Name != m.Name && o.Reach == Reachable && o.status.Running > 0 })
}

// rollOut has local objects get the content of the spec now. Objects of others are overwritten at
// once. In a rollout one by one, the next cluster has its turn when those before it have finished.
func (p *pass) rollOut() {
	var next *member
	waiting := false
	for i := range p.members {
		m := &p.members[i]
		l := &m.Local
		switch {
		case m.Reach != Reachable || !l.Exists || m.status.Name == "" || m.health.Pinned || m.health.Contested:
		case l.Foreign:
			m.due = true
		case l.Revision == p.revision:
			waiting = waiting || m.unfinished()
		case p.in.Spec.Rollout != v1alpha1.RolloutOneByOne:
			m.due = true
		case next == nil:
			next = m
		}
	}
	if next != nil && !waiting {
		next.due = true
	}
	for i := range p.members {
		m := &p.members[i]
		if m.due && !m.health.Frozen && m.status.RollingSince == nil && p.in.Spec.LocalKind == v1alpha1.LocalDeployment {
			m.status.RollingSince = podhealth.Stamp(p.in.Now)
		}
	}
}

// unfinished reports whether a cluster with the new template does not run all that it is able to
// with it.
func (m *member) unfinished() bool {
	runnable := m.status.Written
	if c := m.status.Capacity; c != nil {
		runnable = min(runnable, *c)
	}
	return !m.Local.RolledOut || m.status.RollingSince != nil || m.Local.Failing > 0 || m.status.Running < runnable
}

// What keeps a rollout from being finished in clusters.
const (
	outdated = "%s get the new template when all replicas before them run with it"
	away     = "an earlier template runs in %s, out of reach"
	rolling  = "pods of an earlier template still run in %s"
	slowly   = "not all pods with the new template run in %s"
)

// rollout describes what keeps a rollout from being finished; empty if nothing does.
func (p *pass) rollout() string {
	in := map[string][]string{}
	var parts, why []string
	for i := range p.members {
		m := &p.members[i]
		what := ""
		switch current := m.status.Revision == p.revision; {
		case m.Reach != Reachable && m.status.Written > 0 && !current:
			what = away
		case m.Reach != Reachable || !m.Local.Exists || m.status.Name == "":
		case !current:
			what = outdated
		case !m.Local.RolledOut:
			what = rolling
		case m.unfinished():
			what = slowly
		}
		in[what] = append(in[what], m.Name)
		if text := m.stuck(p.act); text != "" && (what == rolling || what == slowly) {
			why = append(why, text)
		}
	}
	for _, what := range []string{outdated, away, rolling, slowly} {
		if names := in[what]; len(names) > 0 && (what != slowly || len(in[outdated]) > 0) {
			parts = append(parts, fmt.Sprintf(what, strings.Join(names, ", ")))
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return strings.Join(append(parts, why...), "; ")
}

// stuck says why a rollout does not go on in a cluster; empty if it may.
func (m *member) stuck(timeout time.Duration) string {
	switch n := m.nodeless(); {
	case m.Local.Paused:
		return fmt.Sprintf("in %s, the Deployment is paused: kubectl rollout resume lets it go on", m.Name)
	case m.Local.Failing > 0:
		return fmt.Sprintf("in %s, %s with a node did not start within %s: check the image, the probes and the logs of the new template", m.Name,
			spelling.Count(m.Local.Failing, "pod"), timeout)
	case n > 0:
		return fmt.Sprintf("in %s, %s found no node within %s", m.Name, spelling.Count(n, "pod"), timeout)
	case !m.Local.FailingSince.IsZero():
		return fmt.Sprintf("in %s, pods cannot be created: check quotas and admission", m.Name)
	}
	return ""
}

// Revision is a hash of all that a spec says about the content of local objects. The order of fields
// and white space do not matter.
func Revision(spec *v1alpha1.FederatedReplicaSetSpec) string {
	hash := sha256.New()
	for _, part := range []any{spec.LocalKind, spec.Selector, spec.Template.Metadata, canonical(spec.Template.Spec.Raw)} {
		text, _ := json.Marshal(part) // of strings, maps and numbers: it cannot fail
		hash.Write(append(text, 0))
	}
	return hex.EncodeToString(hash.Sum(nil)[:8])
}

// canonical is a JSON text as a value; text that is not JSON stays text.
func canonical(text []byte) any {
	var value any
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber() // large numbers differ in their last digits
	if err := decoder.Decode(&value); err != nil {
		return string(text)
	}
	return value
}
