// Package charts renders the Helm chart of evenkeel and makes from it what lies beside it: the manifests for kustomize, the schema
// of the values, and the page about them. So each of them has one source. It talks to no cluster.
package charts

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"sigs.k8s.io/yaml"
)

// Load reads the chart in a folder.
func Load(folder string) (*chart.Chart, error) {
	c, err := loader.Load(folder)
	if err != nil {
		return nil, fmt.Errorf("loading the chart %s: %w", folder, err)
	}
	return c, nil
}

// Render returns what a release in a namespace consists of, by the name of the template such as controller/rbac/users.yaml, without blank
// lines. Templates of which nothing is left are not in it. The values are a YAML document, and must fit the schema of the chart.
func Render(c *chart.Chart, namespace, values string) (map[string]string, error) {
	var own map[string]any
	if err := yaml.Unmarshal([]byte(values), &own); err != nil {
		return nil, fmt.Errorf("reading the values: %w", err)
	}
	release := chartutil.ReleaseOptions{Name: "evenkeel", Namespace: namespace, Revision: 1, IsInstall: true}
	all, err := chartutil.ToRenderValues(c, own, release, chartutil.DefaultCapabilities)
	if err != nil {
		return nil, err // it names the value, and what is wrong with it
	}
	texts, err := engine.Render(c, all)
	if err != nil {
		return nil, err
	}
	out := map[string]string{}
	for name, text := range texts {
		if text = tidy(text); text != "" {
			out[strings.TrimPrefix(name, c.Name()+"/templates/")] = text
		}
	}
	return out, nil
}

var blank = regexp.MustCompile(`(?m)[ \t]+$|^[ \t]*\n`)

// tidy removes what actions of templates leave behind: blank lines, and blanks at the ends of others.
func tidy(text string) string {
	text = blank.ReplaceAllString(text+"\n", "")
	text = strings.TrimPrefix(blank.ReplaceAllString(text, ""), "---\n")
	return string(bytes.TrimLeft([]byte(text), "\n"))
}
