// Command build compiles the programs of package controlplane, unless that was
// done before, and prints the folder they lie in. Tests do so by themselves;
// this says so while it takes minutes.
package main

import (
	"context"
	"fmt"
	"log"

	"github.com/evenkeel/evenkeel/e2e/controlplane"
)

func main() {
	log.SetFlags(0)
	folder, err := controlplane.Build(context.Background(), log.Printf)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(folder)
}
