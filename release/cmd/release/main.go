// Command release writes the files of a release from programs that make has built, and the notes for it.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/evenkeel/evenkeel/release/artifacts"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func run() error {
	var options artifacts.Options
	folder := flag.String("output", "", "the folder of the files, new or empty")
	notes := flag.String("notes", "", "the file of the notes")
	date := flag.String("date", "", "the time of the commit (RFC 3339)")
	flag.StringVar(&options.Source, "source", "", "the folder of the source")
	flag.StringVar(&options.Version, "version", "", "the version of evenkeel")
	flag.Parse()
	options.Binaries = flag.Args()

	var err error
	if options.Date, err = time.Parse(time.RFC3339, *date); err != nil {
		return fmt.Errorf("-date: %w", err)
	}
	changelog, err := os.ReadFile(filepath.Join(options.Source, "CHANGELOG.md"))
	if err != nil {
		return err
	}
	text, err := artifacts.Notes(string(changelog), options.Version)
	if err != nil {
		return err
	}
	files, err := artifacts.Of(options)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(*folder, 0o755); err != nil {
		return err
	}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(*folder, name), content, 0o644); err != nil {
			return err
		}
	}
	return os.WriteFile(*notes, []byte(text), 0o644)
}
