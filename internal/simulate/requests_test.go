package simulate_test

import (
	"strings"
	"testing"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/internal/simulate"
)

const requestScenario = `machines: [{name: m, resources: {cpu: 2, memory: 8Gi}}]
nodeGroups: [{name: a, machine: m, size: 1, max: 4}]
objects:
- {apiVersion: v1, kind: PodTemplate, metadata: {name: worker}, template: {spec: {containers: [{name: c, resources: {requests: {cpu: 1500m}}}]}}}
- apiVersion: autoscaling.x-k8s.io/v1
  kind: ProvisioningRequest
  metadata: {name: train}
  spec: {provisioningClassName: CLASS, podSets: [{podTemplateRef: {name: TEMPLATE}, count: COUNT}]}
  status: {conditions: [STATUS]}
`

// TestProvisioningRequests: nodes are ordered for all pods of an atomic request or for none, and for
// none of one that only checks. The room is kept for ten minutes, or until pods use it.
func TestProvisioningRequests(t *testing.T) {
	const (
		atomic, check = "best-effort-atomic-scale-up.autoscaling.x-k8s.io", "check-capacity.autoscaling.x-k8s.io"
		down          = "options: {scaleDownEnabled: true}\nduration: 2h\n"
		provisioned   = `{type: Provisioned, status: "True", reason: R, message: "", lastTransitionTime: "2026-03-01T09:00:00Z"}`
		users         = "- {apiVersion: v1, kind: Pod, metadata: {name: NAME, annotations: " +
			"{autoscaling.x-k8s.io/consume-provisioning-request: train}, ownerReferences: [{apiVersion: batch/v1, kind: Job, " +
			"name: train, uid: u, controller: true}]}, spec: {containers: [{name: c, resources: {requests: {cpu: 1500m}}}]}}\n"
	)
	for name, c := range map[string]struct {
		class, count, template, status, more string
		nodes, ordered                       int
		reason                               string // of the first row
		note                                 string
	}{
		"atomic":                      {class: atomic, count: "3", nodes: 3, ordered: 2, reason: v1alpha1.PodsProvisioned},
		"atomic, too large":           {class: atomic, count: "5", nodes: 1, reason: v1alpha1.PodsNotProvisioned},
		"check, room":                 {class: check, count: "1", nodes: 1, reason: v1alpha1.PodsProvisioned},
		"check, no room":              {class: check, count: "2", nodes: 1, reason: v1alpha1.PodsNotProvisioned},
		"the room is kept for a time": {class: atomic, count: "3", more: down, nodes: 0, ordered: 2, reason: v1alpha1.PodsProvisioned},
		"pods use the room": {class: atomic, count: "3", more: strings.Replace(users, "NAME", "u1", 1) + strings.Replace(users, "NAME",
			"u2", 1) + strings.Replace(users, "NAME", "u3", 1) + down, nodes: 3, ordered: 3, reason: v1alpha1.PodsProvisioned},
		"provisioned before": {class: atomic, count: "3", status: provisioned, nodes: 1},
		"failed": {class: atomic, count: "3", status: strings.Replace(provisioned, "Provisioned", "Failed", 1), nodes: 1,
			note: "ProvisioningRequest default/train gets no room: its condition Failed is true"},
		"another class": {class: "queued-provisioning.gke.io", count: "3", nodes: 1, note: "its class is queued-provisioning.gke.io"},
		"no template":   {class: atomic, count: "3", template: "other", nodes: 1, note: "there is no PodTemplate other"},
		"no pods":       {class: atomic, count: "0", nodes: 1, note: "spec.podSets[0].count is 0: it must be between 1 and"},
	} {
		t.Run(name, func(t *testing.T) {
			template := c.template
			if template == "" {
				template = "worker"
			}
			text := strings.NewReplacer("CLASS", c.class, "TEMPLATE", template, "COUNT", c.count, "STATUS", c.status).Replace(requestScenario)
			for _, mode := range simulate.Modes() {
				setup, err := loadWith(scenario(text + c.more))
				if err != nil {
					t.Fatal(err)
				}
				setup.Mode = mode
				if mode == simulate.Expander { // a request must fit within one increase
					setup.Options.MaxNodesPerScaleUp = 10
				}
				s := run(t, setup).Status
				if s.Groups[0].After != c.nodes || s.NodesOrdered != c.ordered || s.Pending != 0 {
					t.Errorf("%s: %d nodes, %d ordered, %d pods pending; want %d, %d, 0\n%v", mode, s.Groups[0].After, s.NodesOrdered, s.Pending, c.nodes,
						c.ordered, s.Timeline)
				}
				first := ""
				for i := range s.Timeline {
					if r := s.Timeline[i].Reason; first == "" && strings.HasSuffix(r, "Provisioned") {
						first = r
					}
				}
				if first != c.reason {
					t.Errorf("%s: %q, want %q", mode, first, c.reason)
				}
				if notes := strings.Join(s.Notes, "\n"); !strings.Contains(notes, c.note) || c.note == "" && notes != "" {
					t.Errorf("%s: notes %q, want %q", mode, notes, c.note)
				}
			}
		})
	}
}
