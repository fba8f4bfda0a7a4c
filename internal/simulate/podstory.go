package simulate

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/internal/autoscaler"
	"github.com/evenkeel/evenkeel/nodegroupset"
)

// podStory is what rounds tried for the pod of Setup.ExplainPod.
type podStory struct {
	rows   []v1alpha1.TimelineRow
	latest string // the texts of the rows that the last round added
}

// FullZone is the only zone of the groups of a scenario that is this one or ends with it, as b for
// eu-west-1b; else the zone itself.
func FullZone(s *v1alpha1.Scenario, zone string) string {
	full := ""
	for i := range s.Spec.NodeGroups {
		g := &s.Spec.NodeGroups[i]
		zones := append(slices.Clone(g.Zones), g.Zone)
		if g.Template != nil {
			zones = append(zones, nodegroupset.ZoneOf(g.Template))
		}
		for _, has := range zones {
			if has == zone || strings.HasSuffix(has, zone) && full != "" && full != has {
				return zone
			}
			if strings.HasSuffix(has, zone) {
				full = has
			}
		}
	}
	return cmp.Or(full, zone)
}

// explains reports whether the story of a pod is asked for.
func (s *Setup) explains(name string) bool {
	return s.ExplainPod != "" && (name == s.ExplainPod || strings.HasSuffix(name, "/"+s.ExplainPod))
}

// follow returns the question to Cluster Autoscaler what it tries for the pod; nil if none is asked for.
func (s *Setup) follow() func(*v1.Pod) bool {
	if s.ExplainPod == "" {
		return nil
	}
	return func(p *v1.Pod) bool { return s.explains(p.Namespace + "/" + p.Name) }
}

// tellStory adds what a round tried for the pod, unless it is what the last one tried.
func (s *simulation) tellStory(at time.Duration, r *autoscaler.ScaleUp) {
	for _, p := range r.Decision.Pods {
		if len(p.Tried) == 0 {
			continue
		}
		rows := []v1alpha1.TimelineRow{{What: strings.ToLower(string(p.Outcome)), Text: cmp.Or(steady(p.Reason), "waits")}}
		for _, tried := range p.Tried {
			rows = append(rows, v1alpha1.TimelineRow{What: "group", Text: tried.Group + ": " + steady(tried.Answer)})
		}
		texts := fmt.Sprint(rows)
		if texts == s.story.latest {
			continue
		}
		s.story.latest = texts
		for i := range rows {
			rows[i].At = metav1.Duration{Duration: at}
		}
		s.story.rows = append(s.story.rows, rows...)
	}
}

// reportStory is the story of the pod that is asked for, from its arrival to its end; nil if there is
// no such pod.
func (s *simulation) reportStory() *v1alpha1.PodStory {
	i := slices.IndexFunc(s.history.pods, func(p *podLife) bool { return s.setup.explains(p.report.Name) })
	if i < 0 {
		return nil
	}
	life := &s.history.pods[i].report
	story := timeline{}
	if len(life.Runs) == 0 || life.Runs[0].From.Duration > life.Arrived.Duration {
		story.add(life.Arrived.Duration, "pending", "waits for a node")
	}
	story.rows = append(story.rows, s.story.rows...)
	for _, run := range life.Runs {
		on := run.Node
		at := slices.IndexFunc(s.history.lives, func(n *nodeLife) bool { return n.report.Name == run.Node })
		if group := s.history.lives[at].report.Group; group != "" {
			on += " of " + group
		}
		story.add(run.From.Duration, "bound", "runs on %s", on)
		if run.To != nil {
			story.add(run.To.Duration, "unbound", "no longer on %s", on)
		}
	}
	if life.Left != nil {
		story.add(life.Left.Duration, "gone", "deleted")
	}
	slices.SortStableFunc(story.rows, func(a, b v1alpha1.TimelineRow) int { return cmp.Compare(a.At.Duration, b.At.Duration) })
	for _, p := range s.cluster.waiting() {
		if p.life == s.history.pods[i] {
			why := ""
			if p.why != "" {
				why = fmt.Sprintf(", left alone by Cluster Autoscaler: %s", p.why)
			}
			story.add(s.elapsed(), "end", "still pending%s", why)
		}
	}
	return &v1alpha1.PodStory{Name: life.Name, Rows: story.rows}
}
