// Command generate writes what is made from the Helm chart in configs: the definitions in the chart, the schema of its values, the page
// about it, and the manifests for kustomize. make generate runs it.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"log"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/evenkeel/evenkeel/configs/charts"
)

func main() {
	log.SetFlags(0)
	configs := flag.String("configs", "..", "the folder configs")
	flag.Parse()
	if err := generate(*configs); err != nil {
		log.Fatal(err)
	}
}

func generate(configs string) error {
	folder := filepath.Join(configs, "charts", "evenkeel")
	if err := definitions(filepath.Join(configs, "crd"), filepath.Join(folder, "files", "crds")); err != nil {
		return err
	}
	values, err := os.ReadFile(filepath.Join(folder, "values.yaml"))
	if err != nil {
		return err
	}
	schema, err := charts.Schema(values)
	if err != nil {
		return fmt.Errorf("values.yaml: %w", err)
	}
	readme := filepath.Join(folder, "README.md")
	text, err := os.ReadFile(readme)
	if err != nil {
		return err
	}
	page, err := charts.Page(string(text), values)
	if err != nil {
		return fmt.Errorf("%s: %w", readme, err)
	}
	if err := errors.Join(write(filepath.Join(folder, "values.schema.json"), string(schema)), write(readme, page)); err != nil {
		return err
	}
	return manifests(configs, folder)
}

// definitions copies those of the kinds into the chart.
func definitions(from, to string) error {
	if err := os.RemoveAll(to); err != nil {
		return err
	}
	names, err := filepath.Glob(filepath.Join(from, "evenkeel.dev_*.yaml"))
	if err != nil {
		return err
	}
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		if err := write(filepath.Join(to, filepath.Base(name)), string(text)); err != nil {
			return err
		}
	}
	return nil
}

// manifests writes those for kustomize. All files beside a kustomization come from the chart: others are an error.
func manifests(configs, folder string) error {
	c, err := charts.Load(folder)
	if err != nil {
		return err
	}
	all, err := charts.Manifests(c)
	if err != nil {
		return err
	}
	components := []string{}
	for name, text := range all {
		components = append(components, strings.SplitN(name, "/", 2)[0])
		if err := write(filepath.Join(configs, name), text); err != nil {
			return err
		}
	}
	slices.Sort(components)
	for _, component := range slices.Compact(components) {
		err := filepath.WalkDir(filepath.Join(configs, component), func(file string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || d.Name() == "kustomization.yaml" {
				return err
			}
			name, err := filepath.Rel(configs, file)
			if err == nil && all[filepath.ToSlash(name)] == "" {
				err = fmt.Errorf("%s: no template of the chart makes this file: delete it, or write the template", file)
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func write(name, text string) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	return os.WriteFile(name, []byte(text), 0o644)
}
