package artifacts

import (
	"regexp"

	"sigs.k8s.io/yaml"

	"github.com/evenkeel/evenkeel/release/bill"
)

var releaseVersion = regexp.MustCompile(`^v(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9A-Za-z.-]+)?$`)

// semantic returns the version as krew and Helm want it. A commit without a tag gets one that is older than all releases.
func semantic(version string) string {
	if releaseVersion.MatchString(version) {
		return version
	}
	return "v0.0.0-g" + version
}

// krew returns the manifest of the plugin for kubectl, kubectl evenkeel.
func krew(version string, programs []program) ([]byte, error) {
	var platforms []map[string]any
	for _, p := range programs {
		platforms = append(platforms, map[string]any{
			"selector": map[string]any{"matchLabels": map[string]string{"os": p.os, "arch": p.arch}},
			"uri":      bill.Source + "/releases/download/" + version + "/" + p.archive,
			"sha256":   p.sum,
			"bin":      p.file(),
		})
	}
	return yaml.Marshal(map[string]any{
		"apiVersion": "krew.googlecontainertools.github.com/v1alpha2",
		"kind":       "Plugin",
		"metadata":   map[string]string{"name": "evenkeel"},
		"spec": map[string]any{
			"version":          semantic(version),
			"homepage":         bill.Source,
			"shortDescription": "Find what keeps node groups and replicas uneven",
			"description": `Reads a cluster or its dump, and shows what keeps its node groups from being even
across failure domains: flags of Cluster Autoscaler, labels, quotas and more, each
with its remedy (doctor). Explains where pods would run and why they wait (explain),
plans splits (plan), and plays scenarios in virtual time (simulate). It also runs the
expander and sidecar for Cluster Autoscaler, and the controllers.
`,
			"platforms": platforms,
		},
	})
}
