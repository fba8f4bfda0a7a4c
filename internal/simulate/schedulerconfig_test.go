package simulate_test

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/internal/document"
	"github.com/evenkeel/evenkeel/internal/simulate"
)

const zoneByDefault = `apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- pluginConfig:
  - name: PodTopologySpread
    args:
      defaultingType: List
      defaultConstraints: [{maxSkew: 1, topologyKey: topology.kubernetes.io/zone, whenUnsatisfiable: DoNotSchedule}]
`

// withScheduler plays pods that prefer zone a, of which one fits on a node, on three zones with a
// node each and without balancing.
func withScheduler(t *testing.T, options, pods string) (*v1alpha1.ScenarioReportStatus, error) {
	t.Helper()
	spec := `
machines: [{name: m, resources: {cpu: 4, memory: 16Gi}}]
nodeGroups:
- {name: a, zone: a, machine: m, size: 1, max: 9}
- {name: b, zone: b, machine: m, size: 1, max: 9}
- {name: c, zone: c, machine: m, size: 1, max: 9}
options: {balanceSimilarNodeGroups: false, expander: priority, priorities: {"10": [a]}` + options + `}
` + pods
	text := "apiVersion: evenkeel.dev/v1alpha1\nkind: Scenario\nmetadata: {name: test}\nspec:\n  " +
		strings.ReplaceAll(strings.TrimSpace(spec), "\n", "\n  ") + "\n"
	docs, err := document.Read("s.yaml", strings.NewReader(text), document.Options{Kinds: simulate.Kinds()})
	if err != nil {
		return nil, err
	}
	files := fstest.MapFS{
		"scheduler.yaml": {Data: []byte(zoneByDefault)},
		"large.yaml":     {Data: make([]byte, 2<<20)},
		"two.yaml": {Data: []byte("apiVersion: kubescheduler.config.k8s.io/v1\nkind: " +
			"KubeSchedulerConfiguration\nprofiles: [{schedulerName: a}, {schedulerName: b}]\n")},
		"pods.yaml": {Data: []byte(strings.Repeat(`apiVersion: v1
kind: Pod
metadata: {namespace: default, name: web-N, labels: {app: web}}
spec: {containers: [{name: c, resources: {requests: {cpu: 3}}}]}
---
`, 6))},
		"services.yaml": {Data: []byte("apiVersion: v1\nkind: Service\nmetadata: {namespace: default, name: web}\nspec: " +
			"{selector: {app: web}}\n")},
	}
	for i := range 6 {
		files["pods.yaml"].Data = []byte(strings.Replace(string(files["pods.yaml"].Data), "web-N", "web-"+string(rune('0'+i)), 1))
	}
	setup, err := simulate.Load(&docs[0], simulate.Files{Open: func(name string) (io.ReadCloser, error) { return files.Open(name) }})
	if err != nil {
		return nil, err
	}
	report, err := simulate.Run(t.Context(), setup, nil)
	if err != nil {
		return nil, err
	}
	return &report.Status, nil
}

// A default constraint decides where nodes are ordered, for pods of a controller or a service.
func TestDefaultSpreadConstraintsCountInScaleUp(t *testing.T) {
	const workload = "workloads: [{name: web, namespace: default, replicas: 6, requests: {cpu: 3}}]"
	const pods, service = "podsFrom: [{file: pods.yaml}]", "\nstorageFrom: [{file: services.yaml}]"
	inline := ", schedulerConfig: {" +
		strings.Join(strings.Fields(`apiVersion: kubescheduler.config.k8s.io/v1, kind: KubeSchedulerConfiguration,
		profiles: [{pluginConfig: [{name: PodTopologySpread, args: {defaultingType: List,
		defaultConstraints: [{maxSkew: 1, topologyKey: topology.kubernetes.io/zone, whenUnsatisfiable: DoNotSchedule}]}}]}]`), " ") + "}"
	for _, tc := range []struct{ name, options, pods, want string }{
		{"the default profile", "", workload, "4/1/1"},
		{"a file, pods of a controller", ", schedulerConfig: scheduler.yaml", workload, "2/2/2"},
		{"in the document", inline, workload, "2/2/2"},
		{"pods of nobody", ", schedulerConfig: scheduler.yaml", pods, "4/1/1"},
		{"pods of a service", ", schedulerConfig: scheduler.yaml", pods + service, "2/2/2"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			status, err := withScheduler(t, tc.options, tc.pods)
			if err != nil {
				t.Fatal(err)
			}
			if got := sizes(status); got != tc.want {
				t.Errorf("sizes %s, want %s", got, tc.want)
			}
		})
	}
}

func TestASchedulerConfigurationIsChecked(t *testing.T) {
	for options, want := range map[string]string{
		"two.yaml":      `spec.options.schedulerConfig: Invalid value: "two.yaml": invalid scheduler configuration: 2 profiles, want one`,
		"large.yaml":    `spec.options.schedulerConfig: Invalid value: "large.yaml": larger than the limit of 1Mi`,
		"missing.yaml":  `spec.options.schedulerConfig: Invalid value: "missing.yaml": no such file`,
		"services.yaml": `spec.options.schedulerConfig: Invalid value: "services.yaml": invalid scheduler configuration`,
		"[]": "spec.options.schedulerConfig: Invalid value: must be a KubeSchedulerConfiguration, or the " +
			"name of a file that holds one",
		`""`: "spec.options.schedulerConfig: Invalid value: must be a KubeSchedulerConfiguration, or the " +
			"name of a file that holds one",
		"{kind: Pod}":          "spec.options.schedulerConfig: Invalid value: invalid scheduler configuration",
		"{profiles: [{a: 1}]}": "spec.options.schedulerConfig: Invalid value: invalid scheduler configuration",
	} {
		_, err := withScheduler(t, ", schedulerConfig: "+options, "")
		var invalid *document.Invalid
		if !errors.As(err, &invalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", options, err, want)
		}
	}
}
