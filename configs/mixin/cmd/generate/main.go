// Command generate writes what the Helm chart contains of the mixin. make generate runs it.
package main

import (
	"flag"
	"log"
	"os"
	"path/filepath"

	"github.com/evenkeel/evenkeel/configs/mixin"
)

func main() {
	log.SetFlags(0)
	folder := flag.String("mixin", ".", "the folder with the mixin")
	files := flag.String("files", "../charts/evenkeel/files", "the folder of the chart for files")
	flag.Parse()
	if err := generate(*folder, *files); err != nil {
		log.Fatal(err)
	}
}

func generate(folder, files string) error {
	m, err := mixin.Evaluate(folder)
	if err != nil {
		return err
	}
	all, err := m.Files()
	if err != nil {
		return err
	}
	for _, kind := range []string{"dashboards", "rules"} {
		if err := os.RemoveAll(filepath.Join(files, kind)); err != nil {
			return err
		}
	}
	for name, text := range all {
		name = filepath.Join(files, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}
