// Command port writes a module for one line of Cluster Autoscaler from the module for another.
//
// Cluster Autoscaler's packages move between its lines, and now and then a function changes. A
// table says which import paths and which lines of code are others; all else is the same. So there
// is one adapter to maintain. What is written is built and not kept.
//
// It knows texts and import paths only, not what they mean: that the result compiles is for its
// module to find out.
package main

import (
	"flag"
	"fmt"
	"log"
	"os"
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("port: ")
	name := flag.String("table", "", "The file that says what is different.")
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "Usage: port -table FILE FROM TO")
		flag.PrintDefaults()
	}
	flag.Parse()
	if flag.NArg() != 2 || *name == "" {
		flag.Usage()
		os.Exit(2) //nolint:forbidigo // this is main
	}
	if err := run(*name, flag.Arg(0), flag.Arg(1)); err != nil {
		log.Fatal(err)
	}
}

func run(name, from, to string) error {
	text, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	t, err := parseTable(string(text))
	if err != nil {
		return fmt.Errorf("%s:%w", name, err)
	}
	return port(t, from, to)
}
