package artifacts

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// A definition is what a schema needs of a CustomResourceDefinition.
type definition struct {
	Spec struct {
		Group string `json:"group"`
		Names struct {
			Kind string `json:"kind"`
		} `json:"names"`
		Versions []struct {
			Name   string `json:"name"`
			Schema struct {
				OpenAPI map[string]any `json:"openAPIV3Schema"`
			} `json:"schema"`
		} `json:"versions"`
	} `json:"spec"`
}

// schemas returns an archive of JSON schemas, one for each custom resource and version, named as in the catalogues that kubeconform
// and the YAML language server read: evenkeel.dev/balancer_v1alpha1.json.
func schemas(options Options) (string, []byte, error) {
	names, err := filepath.Glob(filepath.Join(options.Source, "configs", "crd", "evenkeel.dev_*.yaml"))
	if err != nil || len(names) == 0 {
		return "", nil, fmt.Errorf("definitions of custom resources: %q, %w", names, err)
	}
	slices.Sort(names)
	var files []file
	for _, name := range names {
		content, err := os.ReadFile(filepath.Clean(name))
		if err != nil {
			return "", nil, err
		}
		var d definition
		if err := yaml.Unmarshal(content, &d); err != nil {
			return "", nil, fmt.Errorf("%s: %w", name, err)
		}
		for _, version := range d.Spec.Versions {
			schema, err := jsonSchema(version.Schema.OpenAPI, d.Spec.Names.Kind, d.Spec.Group+"/"+version.Name)
			if err != nil {
				return "", nil, fmt.Errorf("%s: %w", name, err)
			}
			path := fmt.Sprintf("%s/%s_%s.json", d.Spec.Group, strings.ToLower(d.Spec.Names.Kind), version.Name)
			files = append(files, file{path, 0o644, schema})
		}
	}
	content, err := tarred(options.Date, files)
	return fmt.Sprintf("evenkeel_%s_schemas.tar.gz", options.number()), content, err
}

// jsonSchema returns the schema of a custom resource as a JSON schema that stands alone and is strict: a field that the API server would
// drop is an error.
func jsonSchema(schema map[string]any, kind, apiVersion string) ([]byte, error) {
	strict(schema)
	properties, ok := schema["properties"].(map[string]any)
	if !ok {
		return nil, fmt.Errorf("the schema of %s has no properties", kind)
	}
	for name, value := range map[string]string{"kind": kind, "apiVersion": apiVersion} {
		property, ok := properties[name].(map[string]any)
		if !ok {
			return nil, fmt.Errorf("the schema of %s has no %s", kind, name)
		}
		property["enum"] = []string{value}
	}
	schema["$schema"] = "http://json-schema.org/draft-07/schema#"
	schema["required"] = required(schema)
	var buffer bytes.Buffer
	encoder := json.NewEncoder(&buffer)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	err := encoder.Encode(schema)
	return buffer.Bytes(), err
}

// required adds to the fields that a resource must have those that say what it is.
func required(schema map[string]any) []any {
	fields, _ := schema["required"].([]any)
	return append([]any{"apiVersion", "kind"}, fields...)
}

// strict closes the objects whose fields are all known, and says in the words of JSON schema what OpenAPI and Kubernetes have words
// of their own for. A structural schema has fields nowhere else than here; under anyOf and the like there are only rules for them.
func strict(schema map[string]any) {
	if properties, ok := schema["properties"].(map[string]any); ok {
		for _, property := range properties {
			strictAny(property)
		}
		if _, open := schema["additionalProperties"]; !open && schema["x-kubernetes-preserve-unknown-fields"] != true {
			schema["additionalProperties"] = false
		}
	}
	strictAny(schema["items"])
	strictAny(schema["additionalProperties"])
	if schema["x-kubernetes-int-or-string"] == true {
		schema["type"] = []string{"integer", "string"}
	}
	if kind, ok := schema["type"].(string); ok && schema["nullable"] == true {
		schema["type"] = []string{kind, "null"}
	}
	delete(schema, "nullable")
	for key := range schema {
		if strings.HasPrefix(key, "x-kubernetes-") {
			delete(schema, key)
		}
	}
}

func strictAny(value any) {
	if schema, ok := value.(map[string]any); ok {
		strict(schema)
	}
}
