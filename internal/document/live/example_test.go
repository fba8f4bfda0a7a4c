package live_test

import (
	"context"
	"fmt"
	"net/http/httptest"

	"k8s.io/client-go/rest"

	"github.com/evenkeel/evenkeel/internal/document/live"
)

// The pods of a cluster, which here a server in the program stands for.
func ExampleReader_Objects() {
	cluster := httptest.NewServer(&apiServer{pods: 2})
	defer cluster.Close()
	reader, err := live.New(&rest.Config{Host: cluster.URL})
	if err != nil {
		fmt.Println(err)
		return
	}
	for item, err := range reader.Objects(context.Background(), live.Resource{Name: "pods", Path: "/api/v1/pods"}) {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(item.Kind, item.Namespace, item.Name)
	}
	// Output:
	// Pod default web-0000
	// Pod default web-0001
}
