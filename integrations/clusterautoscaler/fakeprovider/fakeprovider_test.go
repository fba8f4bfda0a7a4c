package fakeprovider_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	"sigs.k8s.io/cluster-autoscaler/pkg/cloudprovider/builder"

	"github.com/evenkeel/evenkeel/integrations/clusterautoscaler/fakeprovider"
	"github.com/evenkeel/evenkeel/integrations/clusterautoscaler/provider"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m, goleak.IgnoreCurrent()) }

func TestTheNameIsKnown(t *testing.T) {
	if _, ok := builder.GetCloudProviderBuilder(fakeprovider.Name); !ok {
		t.Errorf("%s is none of %v", fakeprovider.Name, builder.AvailableCloudProviders())
	}
}

const fleet = `
apiVersion: evenkeel.dev/v1alpha1
kind: Scenario
metadata: {name: trial}
spec:
  duration: 1h
  machines: [{name: m, resources: {cpu: 2, memory: 8Gi, pods: 29}}]
  nodeGroups: [{name: zone-a, zone: a, machine: m, size: 1, max: 4, bootTime: 10ms, readyDelay: 0s}]
`

func write(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "fleet.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// What the autoscaler orders appears as Node objects, and stays at the end.
func TestNodesAppear(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	client := fake.NewClientset()
	seen, err := client.CoreV1().Nodes().Watch(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer seen.Stop()
	cloud, err := fakeprovider.Open(write(t, fleet), client, provider.Options{Name: fakeprovider.Name})
	if err != nil {
		t.Fatal(err)
	}
	if err := cloud.NodeGroups()[0].IncreaseSize(1); err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for len(names) < 2 {
		select {
		case event := <-seen.ResultChan():
			if node, ok := event.Object.(*v1.Node); ok && event.Type == watch.Added {
				names[node.Name] = true
			}
		case <-ctx.Done():
			t.Fatalf("only %v appeared", names)
		}
	}
	if err := cloud.Cleanup(); err != nil {
		t.Error(err)
	}
	nodes, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil || len(nodes.Items) != 2 {
		t.Errorf("%d nodes are left, %v", len(nodes.Items), err)
	}
}

func TestOpenRefuses(t *testing.T) {
	for name, test := range map[string]struct{ file, want string }{
		"no file":                    {"", "--cloud-config"},
		"a file that is not there":   {"/nowhere.yaml", "/nowhere.yaml"},
		"no scenario":                {write(t, "kind: Pod"), "Pod"},
		"two scenarios":              {write(t, fleet+"---"+fleet), "holds 2 scenarios"},
		"what cannot be a cloud":     {write(t, strings.ReplaceAll(fleet, "max: 4", "max: -4")), "max"},
		"what nodes cannot be named": {write(t, strings.ReplaceAll(fleet, "name: zone-a", "name: Zone_A")), "Zone_A"},
		"what cannot be a mark":      {write(t, strings.ReplaceAll(fleet, "name: trial", "name: "+strings.Repeat("long", 20))), "longlong"},
	} {
		_, err := fakeprovider.Open(test.file, fake.NewClientset(), provider.Options{})
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func ExampleOpen() {
	folder, err := os.MkdirTemp("", "example")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = os.RemoveAll(folder) }()
	file := filepath.Join(folder, "fleet.yaml")
	if err := os.WriteFile(file, []byte(fleet), 0o600); err != nil {
		fmt.Println(err)
		return
	}
	cloud, err := fakeprovider.Open(file, fake.NewClientset(), provider.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, group := range cloud.NodeGroups() {
		size, err := group.TargetSize()
		fmt.Println(group.Id(), size, err)
	}
	fmt.Println(cloud.Cleanup())
	// Output:
	// zone-a 1 <nil>
	// <nil>
}
