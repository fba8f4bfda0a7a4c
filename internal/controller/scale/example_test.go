package scale_test

import (
	"context"
	"fmt"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/internal/controller/scale"
)

// A Scale is read, written once, and not written over what another did.
func ExampleNew() {
	server := newServer()
	defer server.Close()
	server.add("apps/v1", "deployments", "web", "app=web", 3)

	client, err := scale.New(server.config(), scale.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	read, err := client.Get(context.Background(), "shop", v1alpha1.ScaleTargetReference{Kind: "Deployment", Name: "web"})
	fmt.Println(read.Replicas, read.Selector, err)
	written, err := client.Update(context.Background(), read, 5)
	fmt.Println(written.Replicas, err)
	_, err = client.Update(context.Background(), read, 1)
	fmt.Println(scale.ReasonOf(err))
	_, err = client.Get(context.Background(), "shop", v1alpha1.ScaleTargetReference{Kind: "Rollout", Name: "web"})
	fmt.Println(err)
	// Output:
	// 3 app=web <nil>
	// 5 <nil>
	// Conflict
	// Rollout web: set apiVersion: only Deployment, StatefulSet and ReplicaSet need none
}
