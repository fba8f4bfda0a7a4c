// Command image writes the container image of evenkeel as an OCI layout, from binaries that make has built.
package main

import (
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/evenkeel/evenkeel/release/image"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

func run() error {
	var options image.Options
	folder := flag.String("output", "", "the folder of the layout")
	date := flag.String("date", "", "the time of the commit (RFC 3339)")
	flag.StringVar(&options.Name, "name", "", "the name of the image with its tag")
	flag.StringVar(&options.Version, "version", "", "the version of evenkeel")
	flag.StringVar(&options.Commit, "commit", "", "the commit it is built from")
	flag.Parse()
	options.Binaries = flag.Args()

	var err error
	if options.Date, err = time.Parse(time.RFC3339, *date); err != nil {
		return fmt.Errorf("-date: %w", err)
	}
	return image.Write(*folder, options)
}
