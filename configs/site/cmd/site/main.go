// Command site writes the manual as web pages. make site runs it.
package main

import (
	"context"
	"flag"
	"log"
	"os"
	"strings"

	"github.com/evenkeel/evenkeel/configs/site"
)

func main() {
	log.SetFlags(0)
	var o site.Options
	folder := flag.String("site", ".", "the folder with the layouts")
	output := flag.String("output", "", "the folder to write to")
	list := flag.String("versions", "", "a file with the versions that are published, newest first, one a line")
	flag.StringVar(&o.Version, "version", "", "the version that is made")
	flag.StringVar(&o.Ref, "ref", "main", "the commit or tag that links to files of the repository name")
	flag.Parse()
	if *list != "" {
		text, err := os.ReadFile(*list)
		if err != nil {
			log.Fatal(err)
		}
		o.Versions = strings.Fields(string(text))
	}
	if err := site.Build(context.Background(), *folder, *output, o); err != nil {
		log.Fatal(err)
	}
}
