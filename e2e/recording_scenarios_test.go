package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/configs/scenarios"
)

// bundled are the scenarios that come with the program and can be played on a real control plane, with
// what is different there: machines boot faster, and what takes hours is shortened.
var bundled = map[string]string{
	"backoff":               `{options: {initialNodeGroupBackoffDuration: 100s}, duration: 5m}`,
	"balancing-off":         `{}`,
	"capacity-levelling":    `{}`,
	"daemon-sets":           `{}`,
	"empty-sibling":         `{}`,
	"headroom":              `{}`,
	"label-noise":           `{}`,
	"late-stock-out":        `{duration: 4m}`,
	"max-hit":               `{}`,
	"member-fails":          `{}`,
	"mixed-instances":       `{}`,
	"over-max":              `{}`,
	"overlapping-kinds":     `{}`,
	"pinned-pod":            `{}`,
	"policy-cpu":            `{}`,
	"policy-spread":         `{}`,
	"proposal-example":      `{}`,
	"scale-down-level":      `{duration: 5m, options: {scaleDownUnneededTime: 40s, scaleDownDelayAfterAdd: 10s}}`,
	"scale-down-unbalanced": `{duration: 5m, options: {scaleDownUnneededTime: 40s, scaleDownDelayAfterAdd: 10s}}`,
	"scale-from-zero":       `{}`,
	"spread-closed-zone":    `{}`,
	"spread-one-round":      `{}`,
	"spread-zone-full":      `{}`,
	"tiny-waste":            `{}`,
	"zone-spread":           `{}`,
	"zones-from-zero":       `{}`,
}

// shorter are the arrivals and changes of workloads that come later than need be.
var shorter = map[string]time.Duration{
	"backoff": 2, "capacity-levelling": 1, "mixed-instances": 4, "over-max": 1, "policy-cpu": 8, "policy-spread": 8, "scale-down-level": 4,
	"scale-down-unbalanced": 4, "scale-from-zero": 1,
}

// A measured scenario is a row of docs/performance.md: groups of one machine with two cores in the zones
// a, b and c, and the rest of its spec.
type measured struct{ name, spec string }

// inZones are groups m-a, m-b and so on with the sizes.
func inZones(machine string, maximum int, sizes ...int) string {
	var out strings.Builder
	for i, size := range sizes {
		letter := string(rune('a' + i))
		fmt.Fprintf(&out, "- {name: %s-%s, zone: zone-%s, machine: %s, max: %d, size: %d}\n", machine, letter, letter, machine, maximum, size)
	}
	return out.String()
}

// workloadOf are pods of machine m, one or two to a node.
func workloadOf(replicas, perNode int, more string) string {
	return fmt.Sprintf("workloads:\n- {name: web, replicas: %d, requests: {cpu: %dm}%s}\n", replicas, 1900/perNode, more)
}

// spreadRows are the rows of pods with a topology spread, which are played with --salvo-scale-up too.
func spreadRows() []measured {
	zone := func(skew int, more string) string { return fmt.Sprintf(", spread: [{maxSkew: %d%s}]", skew, more) }
	limited := strings.Replace(inZones("m", 20, 1, 1, 1), "zone-c, machine: m, max: 20", "zone-c, machine: m, max: 3", 1)
	return []measured{
		{"spread-node-per-zone", inZones("m", 20, 1, 1, 1) + workloadOf(36, 2, zone(1, ""))},
		{"spread-from-zero", inZones("m", 20, 0, 0, 0) + workloadOf(30, 2, zone(1, ""))},
		{"spread-skew-two", inZones("m", 20, 1, 1, 1) + workloadOf(36, 2, zone(2, ""))},
		{"spread-min-domains", inZones("m", 20, 0, 0, 0) + workloadOf(30, 2, zone(1, ", minDomains: 3"))},
		{"spread-hosts", inZones("m", 20, 1, 1, 1) +
			workloadOf(15, 1, ", spread: [{maxSkew: 1}, {maxSkew: 1, topologyKey: kubernetes.io/hostname}]")},
		{"spread-two-sets", inZones("m", 20, 1, 1, 1) + inZones("r", 20, 1, 1, 1) +
			workloadOf(24, 2, zone(1, "")+", nodeSelector: {node.kubernetes.io/instance-type: m}") +
			"- {name: db, replicas: 18, requests: {cpu: 1400m}, spread: [{maxSkew: 2}], nodeSelector: {node.kubernetes.io/instance-type: r}}\n"},
		{"spread-zone-maximum", limited + workloadOf(20, 2, zone(1, ""))},
		{"spread-no-room", limited + workloadOf(36, 2, zone(1, ""))},
		{"spread-free-and-pinned", inZones("m", 20, 0, 0, 0) + workloadOf(9, 1, "") +
			"- {name: pinned, replicas: 1, requests: {cpu: 1900m}, nodeSelector: {topology.kubernetes.io/zone: zone-b}}\n"},
	}
}

func measuredRows() []measured {
	rows := []measured{
		{"from-zero", inZones("m", 20, 0, 0, 0) + workloadOf(9, 1, "")},
		{"uneven", inZones("m", 20, 1, 3, 6) + workloadOf(14, 1, "")},
		{"sixty", inZones("m", 40, 0, 0, 0) + workloadOf(60, 2, "")},
		{"maximum-two", strings.Replace(inZones("m", 20, 0, 0, 1), "max: 20", "max: 2", 1) + workloadOf(13, 1, "")},
		{"twelve-groups", inZones("m", 20, make([]int, 12)...) + workloadOf(30, 1, "")},
		{"three-sets", inZones("m", 20, 0, 0, 0) + inZones("r", 20, 1, 2, 0) + inZones("c", 20, 0, 3, 1) +
			workloadOf(9, 1, ", nodeSelector: {node.kubernetes.io/instance-type: m}") +
			"- {name: db, replicas: 16, requests: {cpu: 1400m}, nodeSelector: {node.kubernetes.io/instance-type: r}}\n" +
			"- {name: job, replicas: 11, requests: {cpu: 3900m}, nodeSelector: {node.kubernetes.io/instance-type: c}}\n"},
		{"six-free-three-pinned", inZones("m", 20, 0, 0, 0) + workloadOf(6, 1, "") +
			"- {name: pinned, replicas: 3, requests: {cpu: 1900m}, nodeSelector: {topology.kubernetes.io/zone: zone-b}}\n"},
		{"provider-unavailable", inZones("m", 20, 0, 0, 0) + workloadOf(0, 1, ", scale: [{at: 60s, replicas: 9}]") +
			`faults: {calls: [{methods: [Refresh], error: Unavailable, from: 61s, until: 91s}]}`},
		{"listed-late", strings.ReplaceAll(inZones("m", 20, 0, 0, 0), "size: 0", "size: 0, listDelay: 30s, bootTime: 35s") +
			workloadOf(9, 1, "")},
		{"zone-refuses", inZones("m", 40, 0, 0, 0) + workloadOf(30, 1, "") + `faults: {stockOuts: [{groups: [m-b], until: 3m}]}`},
		{"zone-refuses-more", inZones("m", 20, 0, 0, 0) + workloadOf(15, 1, ", scale: [{at: 2m, replicas: 21}]") +
			`faults: {stockOuts: [{groups: [m-b], from: 100s}]}`},
		{"zone-unready", inZones("m", 20, 3, 3, 3) + workloadOf(9, 1, ", scale: [{at: 2m, replicas: 18}]") +
			`faults: {outages: [{zones: [zone-b], from: 90s}]}` + "\nduration: 4m"},
		{"never-joins", strings.Replace(inZones("m", 20, 0, 0, 0), "zone-b, machine: m, max: 20, size: 0",
			"zone-b, machine: m, max: 20, size: 0, registrationDelay: 24h", 1) +
			workloadOf(9, 1, "") + "options: {maxNodeProvisionTime: 60s}\nduration: 4m"},
		{"slow-increase", inZones("m", 40, 0, 0, 0) + workloadOf(30, 1, "") +
			`faults: {calls: [{methods: [IncreaseSize], delay: 8s}]}` + "\nduration: 3m"},
		{"host-ports", inZones("m", 20, 0, 0, 0) + `workloads:
- name: web
  replicas: 9
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: main, ports: [{containerPort: 80, hostPort: 80}], resources: {requests: {cpu: 100m}}}]}
`},
		{"daemon-set-of-a-zone", inZones("m", 20, 0, 0, 0) + workloadOf(24, 4, "") +
			"daemonSets:\n- {name: agent, requests: {cpu: 1}, nodeSelector: {topology.kubernetes.io/zone: zone-b}}\n"},
	}
	for _, row := range spreadRows() {
		rows = append(rows, row, measured{row.name + "-salvo", row.spec + "options: {salvoScaleUp: true}\n"})
	}
	return rows
}

// recordedScenarios are all that are recorded.
func recordedScenarios(t *testing.T) []*v1alpha1.Scenario {
	t.Helper()
	var out []*v1alpha1.Scenario
	for _, row := range measuredRows() {
		s := &v1alpha1.Scenario{ObjectMeta: metav1.ObjectMeta{Name: row.name}}
		spec := "machines:\n- {name: m, resources: {cpu: 2, memory: 8Gi}}\n- {name: r, resources: {cpu: 3, memory: 8Gi}}\n" +
			"- {name: c, resources: {cpu: 4, memory: 8Gi}}\nnodeGroups:\n" + row.spec
		if err := yaml.UnmarshalStrict([]byte(spec), &s.Spec); err != nil {
			t.Fatalf("%s: %v\n%s", row.name, err, spec)
		}
		out = append(out, s)
	}
	for _, name := range scenarios.Names() {
		patch, ok := bundled[name]
		if !ok {
			continue
		}
		text, err := scenarios.Read(name)
		if err != nil {
			t.Fatal(err)
		}
		s := &v1alpha1.Scenario{}
		if err := yaml.Unmarshal(text, s); err != nil {
			t.Fatal(err)
		}
		if err := yaml.UnmarshalStrict([]byte(patch), &s.Spec); err != nil {
			t.Fatal(err)
		}
		s.Spec.Expect, s.Spec.Description = nil, ""
		for i := range s.Spec.Workloads {
			w := &s.Spec.Workloads[i]
			by := max(1, shorter[name])
			w.Arrive.Duration /= by
			for j := range w.Scale {
				w.Scale[j].At.Duration /= by
			}
			if w.Leave != nil {
				w.Leave.Duration /= by
			}
		}
		out = append(out, s)
	}
	for _, s := range out {
		s.TypeMeta = metav1.TypeMeta{APIVersion: v1alpha1.APIVersion, Kind: v1alpha1.KindScenario}
		if s.Spec.Duration == nil || s.Spec.Duration.Duration > longest {
			s.Spec.Duration = &metav1.Duration{Duration: longest}
		}
		for i := range s.Spec.NodeGroups {
			g := &s.Spec.NodeGroups[i]
			if g.BootTime == nil {
				g.BootTime = &metav1.Duration{Duration: 20 * time.Second}
			}
			g.ReadyDelay, g.TerminationTime = &metav1.Duration{}, &metav1.Duration{Duration: 5 * time.Second}
		}
	}
	return out
}
