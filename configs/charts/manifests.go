package charts

import (
	"fmt"
	"path"
	"strings"

	"helm.sh/helm/v3/pkg/chart"
)

// rendering is a set of values with which some templates become manifests.
type rendering struct {
	namespace, values string
	templates         []string          // as prefixes of their names
	to                map[string]string // names of files that differ from those of their templates
}

// renderings are the bases for kustomize. Overlays such as controller/namespaced are kustomizations over them, and tests hold them
// against the same values of the chart.
var renderings = []rendering{{
	namespace: "default",
	values: `
crds: {install: false}
controller: {namespace: evenkeel-system, createNamespace: true, kinds: {balancers: true, rollouts: true},
  serviceMonitor: true, prometheusRule: true}`,
	templates: []string{"controller/"},
}, {
	namespace: "evenkeel-system",
	values:    `controller: {certManager: true}`,
	templates: []string{"controller/certificates/"},
}, {
	namespace: "evenkeel-system",
	values:    `controller: {namespaces: [default]}`,
	templates: []string{"controller/namespaced/"},
}, {
	namespace: "kube-system",
	values:    `expander: {enabled: true, serviceMonitor: true, prometheusRule: true}`,
	templates: []string{"expander/"},
}, {
	namespace: "kube-system",
	values:    `expander: {enabled: true, countNodes: true}`,
	templates: []string{"expander/count-nodes/"},
}, {
	namespace: "kube-system",
	values:    `sidecar: {enabled: true, serviceMonitor: true, prometheusRule: true, backend: {address: "my-provider.kube-system.svc:8086"}}`,
	templates: []string{"sidecar/"},
}, {
	namespace: "kube-system",
	values:    `sidecar: {enabled: true, podConditions: true, backend: {address: "my-provider.kube-system.svc:8086"}}`,
	templates: []string{"sidecar/pod-conditions/"},
}, {
	namespace: "kube-system",
	values:    demo,
	templates: []string{"sidecar/demo/", "sidecar/deploy/deployment.yaml"},
	to:        map[string]string{"sidecar/deploy/deployment.yaml": "sidecar/demo/deployment.yaml"},
}}

// demo are the values of a Cluster Autoscaler on a fake cloud.
const demo = `
controller: {enabled: false}
sidecar:
  enabled: true
  fakeCloud: {enabled: true}
  zonalShiftConfigMap: ""
  autoscaler: {extraArgs: [--scan-interval=5s, --scale-down-unneeded-time=1m, --scale-down-delay-after-add=1m]}`

// Manifests returns the files of configs that kustomize takes, by their names there.
func Manifests(c *chart.Chart) (map[string]string, error) {
	out := map[string]string{}
	for _, r := range renderings {
		texts, err := Render(c, r.namespace, r.values)
		if err != nil {
			return nil, fmt.Errorf("rendering %s: %w", strings.Join(r.templates, ", "), err)
		}
		for name, text := range texts {
			if !r.has(name) {
				continue
			}
			file := name
			if to := r.to[name]; to != "" {
				file = to
			}
			header := fmt.Sprintf("# Code generated from %s by make generate. DO NOT EDIT.\n", path.Join("configs/charts/evenkeel/templates", name))
			if out[file] != "" && out[file] != header+text {
				return nil, fmt.Errorf("%s comes out in two ways", file)
			}
			out[file] = header + text
		}
	}
	return out, nil
}

func (r rendering) has(template string) bool {
	for _, prefix := range r.templates {
		if strings.HasPrefix(template, prefix) {
			return true
		}
	}
	return false
}
