package reconcile_test

import (
	"fmt"

	"github.com/evenkeel/evenkeel/federation/members"
	"github.com/evenkeel/evenkeel/federation/reconcile"
)

// A manager runs the controller beside that of the members.
func ExampleNew() {
	clusters := members.New(members.Options{})
	fmt.Println(reconcile.New(clusters, reconcile.Options{}).Name(), clusters.Name())
	// Output: federation members
}
