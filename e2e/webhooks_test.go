package e2e

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/evenkeel/evenkeel/e2e/controlplane"
	"github.com/evenkeel/evenkeel/e2e/evenkeel"
	"github.com/evenkeel/evenkeel/e2e/process"
)

const webhooksName = "evenkeel-webhooks"

// Two controllers with the rights of the manifests answer the webhooks of the manifests: no pod is
// refused while their certificate is replaced, and while one of them is stopped. Only the API server gets answers, as it alone has a
// client certificate.
func TestWebhooksUnderLoad(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Minute)
	defer cancel()
	service := newOneAddress(ctx, t)
	clients := evenkeel.Certificates(t)
	plane := controlplane.Start(t, controlplane.Options{Bare: true, Args: map[controlplane.Program][]string{
		controlplane.APIServer: {"--admission-control-config-file=" + callingWith(t, clients, service.Addr().String())},
	}})
	c := balancerClient(ctx, t, plane)
	applyController(ctx, t, plane, "deploy", "")
	kubeconfig := plane.KubeconfigAs(t, "system:serviceaccount:evenkeel-system:evenkeel-controller", "system:serviceaccounts",
		"system:authenticated")
	var controllers []*evenkeel.Controller
	var addresses []string
	for range 2 {
		address := process.FreeAddress(t)
		controllers = append(controllers, evenkeel.StartController(t, evenkeel.ControllerOptions{Kubeconfig: kubeconfig, Args: []string{
			"--controllers=workloadspread", "--webhook-address=" + address, "--webhook-host=127.0.0.1", "--webhook-cert-lifetime=1h",
			"--webhook-shutdown-delay=3s", "--webhook-client-cacert=" + filepath.Join(clients, "ca.crt"),
		}}))
		addresses = append(addresses, address)
		service.add(address)
	}
	applyController(ctx, t, plane, "deploy", "https://"+service.Addr().String()) // the controllers are ready without configurations
	until(ctx, t, "the configurations are complete", func() bool { return len(mutating(ctx, t, c).Rules) == 1 })
	if names := selectedNamespaces(mutating(ctx, t, c)); names != nil {
		t.Errorf("without a WorkloadSpread the namespaces %v are selected", names)
	}
	owner := spreadWorkload(ctx, t, c, "shop")
	if names := selectedNamespaces(mutating(ctx, t, c)); !slices.Equal(names, []string{"shop"}) {
		t.Errorf("with the WorkloadSpread the namespaces %v are selected", names)
	}
	until(ctx, t, "API server and controllers know the WorkloadSpread", func() bool { return spreadOf(ctx, t, c, "probe", owner) != "" })

	call := "https://" + addresses[0] + "/"
	if _, err := post(ctx, t, call, ""); err == nil || !strings.Contains(err.Error(), "certificate required") {
		t.Errorf("somebody without a certificate: %v", err)
	}
	if _, err := post(ctx, t, call, evenkeel.Certificates(t)); err == nil || !strings.Contains(err.Error(), "unknown certificate authority") {
		t.Errorf("somebody with another certificate: %v", err)
	}
	if code, err := post(ctx, t, call, clients); err != nil || code != http.StatusNotFound {
		t.Errorf("with the certificate of the API server: %d, %v", code, err)
	}

	load := newCreations(ctx, t, c, owner)
	for range 3 {
		before := servedBy(ctx, t, addresses[0])
		if err := c.Delete(ctx, &v1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "evenkeel-system", Name: webhooksName}}); err != nil {
			t.Fatal(err)
		}
		until(ctx, t, "both serve another certificate", func() bool {
			a, b := servedBy(ctx, t, addresses[0]), servedBy(ctx, t, addresses[1])
			return !a.Equal(before) && a.Equal(b)
		})
	}
	stopped := make(chan error, 1)
	go func() { stopped <- controllers[0].Stop() }()
	service.remove(addresses[0])
	if err := <-stopped; err != nil {
		t.Errorf("the controller ended with %v", err)
	}
	at := load.created.Load()
	until(ctx, t, "the other one answers alone", func() bool { return load.created.Load() > at+20 })
	load.end()
	if without := load.without.Load(); without > 0 {
		t.Errorf("%d of %d pods are in no subset", without, load.created.Load())
	}
	t.Logf("%d pods were created", load.created.Load())

	configuration := &admissionv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: webhooksName}}
	reset := `[{"op":"remove","path":"/webhooks/0/clientConfig/caBundle"},{"op":"remove","path":"/webhooks/0/namespaceSelector"}]`
	if err := c.Patch(ctx, configuration, client.RawPatch("application/json-patch+json", []byte(reset))); err != nil {
		t.Fatal(err)
	}
	until(ctx, t, "what was overwritten is restored", func() bool {
		w := mutating(ctx, t, c)
		return len(w.ClientConfig.CABundle) > 0 && slices.Equal(selectedNamespaces(w), []string{"shop"})
	})
	applyController(ctx, t, plane, "deploy", "https://"+service.Addr().String())
	if w := mutating(ctx, t, c); len(w.ClientConfig.CABundle) == 0 || len(w.Rules) == 0 ||
		!slices.Equal(selectedNamespaces(w), []string{"shop"}) {
		t.Errorf("the manifests reset %+v", w)
	}
	if got := spreadOf(ctx, t, c, "elsewhere", nil); got != "" {
		t.Errorf("a pod of another namespace has %s", got)
	}
	exempt := changedSpread(t, `metadata: {namespace: kube-system}`)
	if err := c.Create(ctx, exempt); err == nil || !strings.Contains(err.Error(), "namespace kube-system is exempt from webhooks") {
		t.Errorf("a WorkloadSpread in kube-system: %v", err)
	}
}

// applyController installs the manifests of a folder of the controllers. The Service of webhook
// configurations is replaced by a url; without one they are left out.
func applyController(ctx context.Context, t *testing.T, plane *controlplane.ControlPlane, folder, url string) {
	t.Helper()
	for _, o := range read(t, "../controller/"+folder) {
		if strings.HasSuffix(o.GetKind(), "WebhookConfiguration") {
			if url == "" {
				continue
			}
			hooks, _, err := unstructured.NestedSlice(o.Object, "webhooks")
			if err != nil {
				t.Fatal(err)
			}
			for _, hook := range hooks {
				at := hook.(map[string]any)["clientConfig"].(map[string]any)
				at["url"] = url + at["service"].(map[string]any)["path"].(string)
				delete(at, "service")
			}
			if err := unstructured.SetNestedSlice(o.Object, hooks, "webhooks"); err != nil {
				t.Fatal(err)
			}
		}
		if err := plane.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(o), client.FieldOwner("e2e"),
			client.ForceOwnership); err != nil {
			t.Fatalf("%s %s: %v", o.GetKind(), o.GetName(), err)
		}
	}
}

func mutating(ctx context.Context, t *testing.T, c client.Client) *admissionv1.MutatingWebhook {
	t.Helper()
	var found admissionv1.MutatingWebhookConfiguration
	if err := c.Get(ctx, client.ObjectKey{Name: webhooksName}, &found); err != nil {
		t.Fatal(err)
	}
	return &found.Webhooks[0]
}

func selectedNamespaces(w *admissionv1.MutatingWebhook) []string {
	if w.NamespaceSelector == nil || len(w.NamespaceSelector.MatchExpressions) != 1 {
		return []string{"all"}
	}
	return w.NamespaceSelector.MatchExpressions[0].Values
}

// spreadWorkload makes a namespace with a ReplicaSet, which no controller sees, and a WorkloadSpread
// over it.
func spreadWorkload(ctx context.Context, t *testing.T, c client.Client, namespace string) *metav1.OwnerReference {
	t.Helper()
	of := map[string]string{"app": "web"}
	set := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "web"}}
	set.Spec.Replicas = ptr.To[int32](1000)
	set.Spec.Selector = &metav1.LabelSelector{MatchLabels: of}
	set.Spec.Template.Labels = of
	set.Spec.Template.Spec.Containers = []v1.Container{{Name: "main", Image: "none"}}
	spread := changedSpread(t, `spec: {targetRef: {kind: ReplicaSet}}`)
	spread.SetNamespace(namespace)
	for _, o := range []client.Object{
		&v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}},
		&v1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "default"}},
		&v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "elsewhere"}},
		&v1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "elsewhere", Name: "default"}},
		set, spread,
	} {
		if err := c.Create(ctx, o); err != nil {
			t.Fatalf("%T: %v", o, err)
		}
	}
	return metav1.NewControllerRef(set, appsv1.SchemeGroupVersion.WithKind("ReplicaSet"))
}

// webPod is a pod of the workload, or of none in another namespace.
func webPod(name string, owner *metav1.OwnerReference) *v1.Pod {
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "elsewhere", Name: name, Labels: map[string]string{"app": "web"}}}
	if owner != nil {
		pod.Namespace, pod.OwnerReferences = "shop", []metav1.OwnerReference{*owner}
	}
	pod.Spec.Containers = []v1.Container{{Name: "main", Image: "none"}}
	return pod
}

// spreadOf creates a pod and returns what its annotation says.
func spreadOf(ctx context.Context, t *testing.T, c client.Client, prefix string, owner *metav1.OwnerReference) string {
	t.Helper()
	pod := webPod("", owner)
	pod.GenerateName = prefix + "-"
	if err := c.Create(ctx, pod); err != nil {
		t.Fatal(err)
	}
	return pod.Annotations["evenkeel.dev/workload-spread"]
}

// creations creates pods through several clients.
type creations struct {
	created, without atomic.Int64
	stop             context.CancelFunc
	clients          sync.WaitGroup
}

func newCreations(ctx context.Context, t *testing.T, c client.Client, owner *metav1.OwnerReference) *creations {
	ctx, cancel := context.WithCancel(ctx)
	l := &creations{stop: cancel}
	for i := range 4 {
		l.clients.Go(func() {
			n := 0
			_ = wait.PollUntilContextCancel(ctx, 40*time.Millisecond, true, func(context.Context) (bool, error) {
				n++
				pod := webPod(fmt.Sprintf("web-%d-%d", i, n), owner)
				if err := c.Create(context.WithoutCancel(ctx), pod); err != nil {
					t.Errorf("creating a pod: %v", err)
				}
				l.created.Add(1)
				if pod.Annotations["evenkeel.dev/workload-spread"] == "" {
					l.without.Add(1)
				}
				return false, nil
			})
		})
	}
	return l
}

func (l *creations) end() {
	l.stop()
	l.clients.Wait()
}

// servedBy is the certificate that a controller presents.
func servedBy(ctx context.Context, t *testing.T, address string) *x509.Certificate {
	t.Helper()
	// it is looked at, nothing is sent
	conn, err := (&tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true}}).DialContext(ctx, "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	return conn.(*tls.Conn).ConnectionState().PeerCertificates[0]
}

// oneAddress leads connections to one of several addresses in turn, as a Service does.
type oneAddress struct {
	net.Listener
	mu        sync.Mutex
	addresses []string
	next      int
}

func newOneAddress(ctx context.Context, t *testing.T) *oneAddress {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", process.Loopback+":0")
	if err != nil {
		t.Fatal(err)
	}
	s := &oneAddress{Listener: listener}
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go s.forward(ctx, conn)
		}
	}()
	return s
}

func (s *oneAddress) forward(ctx context.Context, from net.Conn) {
	defer from.Close()
	s.mu.Lock()
	s.next++
	address := ""
	if len(s.addresses) > 0 {
		address = s.addresses[s.next%len(s.addresses)]
	}
	s.mu.Unlock()
	to, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	if err != nil {
		return
	}
	defer to.Close()
	done := make(chan struct{}, 2)
	pipe := func(to, from net.Conn) { _, _ = io.Copy(to, from); done <- struct{}{} }
	go pipe(to, from)
	go pipe(from, to)
	<-done
}

func (s *oneAddress) add(address string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.addresses = append(s.addresses, address)
}

func (s *oneAddress) remove(address string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.addresses = slices.DeleteFunc(s.addresses, func(a string) bool { return a == address })
}
