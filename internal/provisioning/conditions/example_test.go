package conditions_test

import (
	"context"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/evenkeel/evenkeel/internal/provisioning/conditions"
)

// A node group grows for a pod, and its condition says so.
func ExampleWriter_Set() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	pods := fake.NewClientset(&v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-0", UID: "7d1e"}}).CoreV1()
	writer := conditions.New(pods, conditions.Options{})
	go writer.Run(ctx)
	writer.Set([]conditions.Notice{{Namespace: "shop", Name: "web-0", UID: "7d1e", Acting: true, Message: "node group spot-a grows"}})
	for {
		pod, err := pods.Pods("shop").Get(ctx, "web-0", metav1.GetOptions{})
		if err != nil {
			fmt.Println(err)
			return
		}
		if len(pod.Status.Conditions) > 0 {
			c := pod.Status.Conditions[0]
			fmt.Printf("%s=%s: %s\n", c.Type, c.Status, c.Message)
			return
		}
		<-time.After(time.Millisecond)
	}
	// Output: NodeProvisioningInProgress=True: node group spot-a grows
}
