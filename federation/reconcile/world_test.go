package reconcile

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/federation/members"
)

// fleet is a host with members, each an API server, and the controllers of members and of
// FederatedReplicaSets in a manager.
type fleet struct {
	t       *testing.T
	host    *server
	members map[string]*server
	stop    func()
}

const (
	frs   = "/apis/evenkeel.dev/v1alpha1/namespaces/shop/federatedreplicasets/web"
	local = "/apis/apps/v1/namespaces/shop/replicasets/web"
	// within is longer than all times of the controllers, and than a busy machine takes.
	within = 5 * time.Minute
)

var quiet sync.Once

func newFleet(t *testing.T, names ...string) *fleet {
	t.Helper()
	f := &fleet{t: t, host: newServer(), members: map[string]*server{}, stop: func() {}}
	t.Cleanup(f.host.shut)
	for _, name := range names {
		f.add(name)
	}
	return f
}

// add starts a member and joins it.
func (f *fleet) add(name string) {
	m := newServer()
	f.t.Cleanup(func() {
		f.stop() // controllers that run connect anew while it shuts down, and their watches would keep it from that
		m.shut()
	})
	m.stored, m.able, m.quota = runPods, 1000, 1000
	f.members[name] = m
	f.join(name, m)
}

func (s *server) shut() {
	s.CloseClientConnections()
	s.Close()
}

func (f *fleet) join(name string, m *server) {
	f.t.Helper()
	kubeconfig, err := clientcmd.Write(clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{"c": {Server: m.URL, CertificateAuthorityData: m.authority()}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{"u": {Token: "token"}},
		Contexts:       map[string]*clientcmdapi.Context{"x": {Cluster: "c", AuthInfo: "u"}},
		CurrentContext: "x",
	})
	if err != nil {
		f.t.Fatal(err)
	}
	f.host.put("/api/v1/namespaces/"+members.DefaultNamespace+"/secrets/member-"+name, object(f.t, &v1.Secret{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}, ObjectMeta: metav1.ObjectMeta{Namespace: members.DefaultNamespace,
			Name: "member-" + name},
		Data: map[string][]byte{"kubeconfig": kubeconfig},
	}))
	c := &v1alpha1.MemberCluster{TypeMeta: metav1.TypeMeta{APIVersion: v1alpha1.APIVersion, Kind: v1alpha1.KindMemberCluster},
		ObjectMeta: metav1.ObjectMeta{Name: name}}
	c.Spec.KubeconfigSecretRef.Name = "member-" + name
	f.host.put("/apis/evenkeel.dev/v1alpha1/memberclusters/"+name, object(f.t, c))
}

func object(t *testing.T, o any) map[string]any {
	t.Helper()
	text, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	var m map[string]any
	if err := json.Unmarshal(text, &m); err != nil {
		t.Fatal(err)
	}
	return m
}

// start runs the controllers until stop is called or the test ends. It returns when the members can
// be reached.
func (f *fleet) start() {
	f.t.Helper()
	quiet.Do(func() { ctrl.SetLogger(logr.Discard()) })
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			f.t.Fatal(err)
		}
	}
	version := schema.GroupVersion{Group: v1alpha1.Group, Version: v1alpha1.Version}
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(v1.SchemeGroupVersion.WithKind("Secret"), meta.RESTScopeNamespace)
	mapper.Add(v1.SchemeGroupVersion.WithKind("Namespace"), meta.RESTScopeRoot)
	mapper.Add(version.WithKind("FederatedReplicaSet"), meta.RESTScopeNamespace)
	mapper.Add(version.WithKind(v1alpha1.KindMemberCluster), meta.RESTScopeRoot)
	mgr, err := ctrl.NewManager(&rest.Config{Host: f.host.URL, TLSClientConfig: rest.TLSClientConfig{CAData: f.host.authority()}, QPS: -1},
		ctrl.Options{
			Scheme: scheme, Metrics: metricsserver.Options{BindAddress: "0"}, Logger: logr.Discard(),
			MapperProvider: func(*rest.Config, *http.Client) (meta.RESTMapper, error) { return mapper, nil },
			Controller:     config.Controller{SkipNameValidation: ptr.To(true), MaxConcurrentReconciles: 4},
		})
	if err != nil {
		f.t.Fatal(err)
	}
	m := members.New(members.Options{ProbeInterval: 50 * time.Millisecond, ProbeTimeout: within, CallTimeout: within,
		OfflineAfter: time.Minute, StabilizationTime: 100 * time.Millisecond})
	for _, c := range []interface{ SetupWithManager(ctrl.Manager) error }{m, New(m, Options{})} {
		if err := c.SetupWithManager(mgr); err != nil {
			f.t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- mgr.Start(ctx) }()
	f.stop = func() {
		f.stop = func() {}
		cancel()
		if err := <-done; err != nil {
			f.t.Error(err)
		}
	}
	f.t.Cleanup(func() { f.stop() })
	for name := range f.members {
		f.until("reached: "+name, func() bool {
			c := m.Get(name)
			return c != nil && c.View().State == members.Ready && c.View().Known
		})
	}
}

// runPods is what the controllers, the scheduler and the kubelets of a member do: as many pods of a
// ReplicaSet run as the member is able to.
func runPods(s *server, path string, o *unstructured.Unstructured) {
	if path != local {
		return
	}
	size := 0
	if o.GetDeletionTimestamp() == nil {
		n, _, _ := unstructured.NestedFieldNoCopy(o.Object, "spec", "replicas")
		size = min(int(number(n)), s.quota)
	}
	for i := range max(size, s.pods) {
		pod := fmt.Sprintf("/api/v1/namespaces/shop/pods/web-%d", i)
		was := s.objects[pod]
		switch {
		case i >= size && was != nil:
			gone := was.DeepCopy()
			gone.SetDeletionTimestamp(new(metav1.Now()))
			s.store(pod, gone)
		case i < size && was == nil:
			s.store(pod, &unstructured.Unstructured{Object: podOf(o, i, i < s.able)})
		}
	}
	s.pods = size
	if s.objects[path] != nil {
		s.observed(path)
	}
}

func number(n any) int64 {
	switch n := n.(type) {
	case int64:
		return n
	case float64:
		return int64(n)
	}
	return 0
}

func podOf(o *unstructured.Unstructured, i int, runs bool) map[string]any {
	status, node := map[string]any{"phase": "Pending"}, map[string]any{}
	if runs {
		node = map[string]any{"nodeName": "n"}
		status = map[string]any{"phase": "Running", "conditions": []any{
			map[string]any{"type": "PodScheduled", "status": "True"}, map[string]any{"type": "Ready", "status": "True"},
		}}
	}
	return map[string]any{
		"apiVersion": "v1", "kind": "Pod", "spec": node, "status": status,
		"metadata": map[string]any{
			"name": fmt.Sprintf("web-%d", i), "namespace": "shop", "labels": map[string]any{"app": "web", v1alpha1.LabelFederated: federated},
			"ownerReferences": []any{map[string]any{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": string(o.GetUID()),
				"controller": true}},
		},
	}
}

// ask creates the FederatedReplicaSet.
func (f *fleet) ask(replicas int32, change ...func(*v1alpha1.FederatedReplicaSet)) {
	f.t.Helper()
	set := web()
	set.TypeMeta = metav1.TypeMeta{APIVersion: v1alpha1.APIVersion, Kind: "FederatedReplicaSet"}
	set.UID, set.Spec.LocalKind, set.Spec.Replicas = "", v1alpha1.LocalReplicaSet, &replicas
	set.Spec.Preferences = &v1alpha1.FederatedPreferences{Rebalance: true,
		Clusters: map[string]v1alpha1.FederatedPreference{"*": {ClusterPreference: v1alpha1.ClusterPreference{Weight: ptr.To[int32](1)}}}}
	for _, c := range change {
		c(set)
	}
	f.host.put(frs, object(f.t, set))
}

// scale changes the number of replicas.
func (f *fleet) scale(replicas int64) {
	f.host.change(frs, func(o *unstructured.Unstructured) {
		_ = unstructured.SetNestedField(o.Object, replicas, "spec", "replicas")
	})
}

func (f *fleet) get() (set v1alpha1.FederatedReplicaSet) {
	f.t.Helper()
	o := f.host.get(frs)
	if o == nil {
		return set
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &set); err != nil {
		f.t.Fatal(err)
	}
	return set
}

func (f *fleet) condition(kind string) (status bool, reason, message string) {
	set := f.get()
	if c := meta.FindStatusCondition(set.Status.Conditions, kind); c != nil {
		return c.Status == metav1.ConditionTrue, c.Reason, c.Message
	}
	return false, "", ""
}

// until waits for something.
func (f *fleet) until(what string, holds func() bool) {
	f.t.Helper()
	err := wait.PollUntilContextTimeout(f.t.Context(), 5*time.Millisecond, within, true,
		func(context.Context) (bool, error) { return holds(), nil })
	if err != nil {
		set := f.get()
		f.t.Fatalf("not %s: %s\n%+v", what, f.sizes(), set.Status)
	}
}

// settled waits until the sizes are as wanted and the status says that nothing moves.
func (f *fleet) settled(sizes string) {
	f.t.Helper()
	f.until("settled at "+sizes, func() bool {
		ok, _, _ := f.condition(v1alpha1.ConditionSettled)
		set := f.get()
		return ok && set.Status.ObservedGeneration == set.Generation && f.sizes() == sizes
	})
}

// sizes are those of the local objects, by the names of the clusters.
func (f *fleet) sizes() string {
	text := ""
	for _, name := range slices.Sorted(maps.Keys(f.members)) {
		size := "-"
		if o := f.members[name].get(local); o != nil {
			n, _, _ := unstructured.NestedFieldNoCopy(o.Object, "spec", "replicas")
			size = fmt.Sprint(number(n))
		}
		text += " " + size
	}
	return strings.TrimSpace(text)
}
