// Command schemas writes the schemas of Kubernetes by which tests check what the chart makes: for each release, those of the kinds of the
// chart, from the API description in the source of that release. Run it for a new release:
//
//	go run ./cmd/schemas v1.33.13 v1.34.4 v1.35.4 v1.36.3
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// kinds are those of the chart that Kubernetes defines: names of its API description.
var kinds = []string{
	"io.k8s.api.admissionregistration.v1.MutatingWebhookConfiguration",
	"io.k8s.api.admissionregistration.v1.ValidatingAdmissionPolicy",
	"io.k8s.api.admissionregistration.v1.ValidatingAdmissionPolicyBinding",
	"io.k8s.api.admissionregistration.v1.ValidatingWebhookConfiguration",
	"io.k8s.api.apps.v1.Deployment",
	"io.k8s.api.core.v1.ConfigMap",
	"io.k8s.api.core.v1.Namespace",
	"io.k8s.api.core.v1.ResourceQuota",
	"io.k8s.api.core.v1.Service",
	"io.k8s.api.core.v1.ServiceAccount",
	"io.k8s.api.networking.v1.NetworkPolicy",
	"io.k8s.api.policy.v1.PodDisruptionBudget",
	"io.k8s.api.rbac.v1.ClusterRole",
	"io.k8s.api.rbac.v1.ClusterRoleBinding",
	"io.k8s.api.rbac.v1.Role",
	"io.k8s.api.rbac.v1.RoleBinding",
	"io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinition",
}

func main() {
	log.SetFlags(0)
	for _, release := range os.Args[1:] {
		minor := release[:strings.LastIndex(release, ".")]
		if err := write(release, filepath.Join("testdata", "schemas", minor)); err != nil {
			log.Fatalf("%s: %v", release, err)
		}
	}
}

func write(release, folder string) error {
	out, err := exec.Command("go", "mod", "download", "-json", "k8s.io/kubernetes@"+release).Output()
	if err != nil {
		return err
	}
	var module struct{ Dir string }
	if err := json.Unmarshal(out, &module); err != nil {
		return err
	}
	text, err := os.ReadFile(filepath.Join(module.Dir, "api", "openapi-spec", "swagger.json"))
	if err != nil {
		return err
	}
	var description struct{ Definitions map[string]map[string]any }
	if err := json.Unmarshal(text, &description); err != nil {
		return err
	}
	if err := errors.Join(os.RemoveAll(folder), os.MkdirAll(folder, 0o755)); err != nil {
		return err
	}
	for _, name := range kinds {
		schema, err := alone(description.Definitions, name)
		if err != nil {
			return err
		}
		text, err := json.MarshalIndent(schema, "", " ")
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(folder, fileOf(name)), append(text, '\n'), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// fileOf is how kubeconform calls the schema of a kind: kind-group-version.json.
func fileOf(name string) string {
	parts := strings.Split(name, ".")
	n := len(parts)
	kind, version, group := parts[n-1], parts[n-2], parts[n-3]
	if group == "core" {
		return strings.ToLower(kind + "-" + version + ".json")
	}
	return strings.ToLower(kind + "-" + group + "-" + version + ".json")
}

// alone returns the schema of a kind with all that it refers to.
func alone(definitions map[string]map[string]any, name string) (map[string]any, error) {
	c := closure{definitions: definitions, needed: map[string]any{}}
	if err := c.add(name); err != nil {
		return nil, err
	}
	return map[string]any{"$schema": "http://json-schema.org/schema#", "$ref": reference + name, "definitions": c.needed}, nil
}

// reference is what precedes the name of a definition.
const reference = "#/definitions/"

// closure collects definitions that refer to one another.
type closure struct {
	definitions map[string]map[string]any
	needed      map[string]any
}

// add adds a definition and those that it refers to. One with properties has no others.
func (c closure) add(name string) error {
	if _, found := c.needed[name]; found {
		return nil
	}
	d, found := c.definitions[name]
	if !found {
		return fmt.Errorf("there is no %s", name)
	}
	switch name {
	case "io.k8s.apimachinery.pkg.util.intstr.IntOrString":
		d = map[string]any{"type": []any{"string", "integer"}}
	case "io.k8s.apimachinery.pkg.api.resource.Quantity":
		d = map[string]any{"type": []any{"string", "number"}}
	}
	c.needed[name] = true // meanwhile: a definition may refer to itself
	strict, err := c.object(d)
	if strict["properties"] != nil && strict["additionalProperties"] == nil {
		strict["additionalProperties"] = false
	}
	c.needed[name] = strict
	return err
}

// visit copies a part of a schema.
func (c closure) visit(x any) (any, error) {
	switch x := x.(type) {
	case []any:
		out := make([]any, len(x))
		for i := range x {
			var err error
			if out[i], err = c.visit(x[i]); err != nil {
				return nil, err
			}
		}
		return out, nil
	case map[string]any:
		return c.object(x)
	}
	return x, nil
}

// object copies an object without what does not constrain values: descriptions, formats and the extensions of Kubernetes.
func (c closure) object(x map[string]any) (map[string]any, error) {
	out := map[string]any{}
	for key, inner := range x {
		text, isText := inner.(string)
		_, isSchema := inner.(map[string]any) // of a property with that name
		if (key == "description" || key == "format") && isText || strings.HasPrefix(key, "x-kubernetes-") && !isSchema {
			continue
		}
		if key == "$ref" && isText {
			if err := c.add(strings.TrimPrefix(text, reference)); err != nil {
				return nil, err
			}
		}
		var err error
		if out[key], err = c.visit(inner); err != nil {
			return nil, err
		}
	}
	return out, nil
}
