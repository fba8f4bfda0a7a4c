package e2e

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/e2e/controlplane"
	"github.com/evenkeel/evenkeel/workloadspread"
	"github.com/evenkeel/evenkeel/workloadspread/admission"
	"github.com/evenkeel/evenkeel/workloadspread/store"
)

// Two webhook servers count the pods of an API server that nothing else looks after.
func TestWorkloadSpreadAdmission(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Minute)
	defer cancel()
	plane := controlplane.Start(t, controlplane.Options{Bare: true})
	c := balancerClient(ctx, t, plane)
	w := &admissionWorld{Client: c, t: t, plane: plane}
	w.prepare(ctx)
	w.serve(ctx)
	t.Run("many pods at once", func(t *testing.T) { w.manyPods(ctx, t) })
	t.Run("dry run", func(t *testing.T) { w.dryRun(ctx, t) })
	t.Run("seats", func(t *testing.T) { w.seats(ctx, t) })
	t.Run("refused specs", func(t *testing.T) { w.refusedSpecs(ctx, t) })
	t.Run("refused pods", func(t *testing.T) { w.refusedPods(ctx, t) })
}

type admissionWorld struct {
	client.Client
	t     *testing.T
	plane *controlplane.ControlPlane
	owner *appsv1.ReplicaSet
}

const spreadNamespace = "spread"

func (w *admissionWorld) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// prepare makes the Deployment web with a ReplicaSet, its WorkloadSpread, and a priority class.
func (w *admissionWorld) prepare(ctx context.Context) {
	labels := map[string]string{"app": "web"}
	template := v1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels},
		Spec: v1.PodSpec{Containers: []v1.Container{{Name: "main", Image: "web"}}}}
	selector := &metav1.LabelSelector{MatchLabels: labels}
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: spreadNamespace, Name: "web"},
		Spec: appsv1.DeploymentSpec{Replicas: ptr.To[int32](240), Selector: selector, Template: template}}
	w.must(w.Create(ctx, &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: spreadNamespace}}))
	w.must(w.Create(ctx, &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "low"}, Value: -7,
		PreemptionPolicy: ptr.To(v1.PreemptNever)}))
	w.must(w.Create(ctx, d))
	w.owner = &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: spreadNamespace, Name: "web-1",
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(d, appsv1.SchemeGroupVersion.WithKind("Deployment"))}},
		Spec: appsv1.ReplicaSetSpec{Replicas: ptr.To[int32](240), Selector: selector, Template: template},
	}
	w.must(w.Create(ctx, w.owner))
	spread := changedSpread(w.t, `
metadata: {namespace: spread}
spec:
  subsets:
  - name: a
    maxReplicas: 50
    requiredNodeSelector: {matchExpressions: [{key: zone, operator: In, values: [a]}]}
    patch: {spec: {priorityClassName: low, containers: [{name: main, resources: {requests: {cpu: 500m}}}]}}
  - {name: b, maxReplicas: 70, tolerations: [{key: spot, operator: Exists}]}
  - {name: c, maxReplicas: 300}
`)
	w.must(w.Create(ctx, spread))
}

// serve starts two servers, each with a cache of its own. The label via of a pod says which one is
// asked.
func (w *admissionWorld) serve(ctx context.Context) {
	var pods []string
	for range 2 {
		watching, err := cache.New(w.plane.Config, cache.Options{Scheme: w.Scheme()})
		w.must(err)
		server := admission.New(watching, w.Client, store.New(watching, w.Client, nil), admission.Options{})
		w.must(server.Watch(ctx, watching))
		go func() { _ = watching.Start(ctx) }()
		if !watching.WaitForCacheSync(ctx) {
			w.t.Fatal("the cache does not fill")
		}
		mux := http.NewServeMux()
		for path, handler := range server.Handlers() {
			mux.Handle(path, handler)
		}
		web := httptest.NewUnstartedServer(mux)
		web.TLS = &tls.Config{Certificates: []tls.Certificate{certificate(w.t)}, MinVersion: tls.VersionTLS12}
		web.StartTLS()
		w.t.Cleanup(web.Close)
		pods = append(pods, web.URL)
	}
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate(w.t).Certificate[0]})
	at := func(url, path string) admissionregistrationv1.WebhookClientConfig {
		return admissionregistrationv1.WebhookClientConfig{URL: ptr.To(url + path), CABundle: authority}
	}
	rule := func(group, resource string, operations ...admissionregistrationv1.OperationType) []admissionregistrationv1.RuleWithOperations {
		return []admissionregistrationv1.RuleWithOperations{{Operations: operations, Rule: admissionregistrationv1.Rule{
			APIGroups: []string{group}, APIVersions: []string{"*"}, Resources: []string{resource},
		}}}
	}
	mutating := &admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "spread"}}
	validating := &admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "spread"}}
	only := &metav1.LabelSelector{MatchLabels: map[string]string{"kubernetes.io/metadata.name": spreadNamespace}}
	validating.Webhooks = []admissionregistrationv1.ValidatingWebhook{{
		Name: "spreads.evenkeel.dev", ClientConfig: at(pods[0], admission.PathValidateSpreads), NamespaceSelector: only,
		Rules:       rule(v1alpha1.Group, "workloadspreads", admissionregistrationv1.Create, admissionregistrationv1.Update),
		SideEffects: ptr.To(admissionregistrationv1.SideEffectClassNoneOnDryRun), AdmissionReviewVersions: []string{"v1"},
	}}
	for i, url := range pods {
		via := &metav1.LabelSelector{MatchLabels: map[string]string{"via": fmt.Sprint(i)}}
		mutating.Webhooks = append(mutating.Webhooks, admissionregistrationv1.MutatingWebhook{
			Name: fmt.Sprintf("create-%d.evenkeel.dev", i), ClientConfig: at(url, admission.PathMutatePods),
			Rules:          rule("", "pods", admissionregistrationv1.Create),
			ObjectSelector: via, NamespaceSelector: only,
			SideEffects: ptr.To(admissionregistrationv1.SideEffectClassNoneOnDryRun), AdmissionReviewVersions: []string{"v1"},
		})
	}
	w.must(w.Create(ctx, mutating))
	w.must(w.Create(ctx, validating))
	until(ctx, w.t, "the webhooks are called", func() bool {
		second := changedSpread(w.t, `metadata: {namespace: spread, name: second}`)
		for i := range pods {
			pod := w.pod(i)
			pod.OwnerReferences[0].UID = "other" // an owner that does not exist is an error
			if err := w.Create(ctx, pod, client.DryRunAll); err != nil {
				w.t.Fatal(err) // nothing is done in a dry run
			}
			if err := w.Create(ctx, pod); err == nil {
				w.must(w.Delete(ctx, pod))
				return false
			}
		}
		return apierrors.IsInvalid(w.Create(ctx, second, client.DryRunAll))
	})
}

// certificate is one of the authority itself, which is valid for the loopback address. There is one.
var certificate = func() func(*testing.T) tls.Certificate {
	var made tls.Certificate
	var once sync.Once
	return func(t *testing.T) tls.Certificate {
		once.Do(func() {
			key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
			if err != nil {
				t.Fatal(err)
			}
			template := &x509.Certificate{
				SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
				IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
				IsCA:        true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
				ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
			}
			raw, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
			if err != nil {
				t.Fatal(err)
			}
			made = tls.Certificate{Certificate: [][]byte{raw}, PrivateKey: key}
		})
		return made
	}
}()

// pod is a new pod of the ReplicaSet that one of the servers is asked about.
func (w *admissionWorld) pod(via int) *v1.Pod {
	pod := &v1.Pod{Spec: *w.owner.Spec.Template.Spec.DeepCopy()}
	pod.Namespace, pod.GenerateName = spreadNamespace, "web-1-"
	pod.Labels = map[string]string{"app": "web", "pod-template-hash": "1", "via": fmt.Sprint(via)}
	pod.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(w.owner, appsv1.SchemeGroupVersion.WithKind("ReplicaSet"))}
	return pod
}

// counts are how many pods are counted in each subset.
func (w *admissionWorld) counts(ctx context.Context) map[string]int {
	o := &v1alpha1.WorkloadSpread{}
	w.must(w.Get(ctx, client.ObjectKey{Namespace: spreadNamespace, Name: "web"}, o))
	out := map[string]int{}
	for _, c := range o.Status.VersionedSubsetStatuses["1"] {
		out[c.Name] = int(c.Replicas) + len(c.CreatingPods)
	}
	return out
}

// Each pod gets a place, as clients that create at the same time are answered one after the other. On a busy machine some
// creations may be answered too late: these are tried again, as a ReplicaSet does, and their places stay taken for a while.
func (w *admissionWorld) manyPods(ctx context.Context, t *testing.T) {
	var clients sync.WaitGroup
	work := make(chan int)
	var mu sync.Mutex
	in, late := map[string]int{}, 0
	var slowest time.Duration
	for range 10 {
		clients.Go(func() {
			for i := range work {
				pod, begin := w.pod(i%2), time.Now()
				err := w.Create(ctx, pod)
				for ; apierrors.IsInternalError(err) && ctx.Err() == nil; err = w.Create(ctx, pod) {
					t.Log("trying again:", err)
					mu.Lock()
					late++
					mu.Unlock()
					pod = w.pod(i % 2)
				}
				if err != nil {
					t.Error(err)
					continue
				}
				a, _ := workloadspread.AssignmentOf(pod)
				mu.Lock()
				in[a.Subset]++
				slowest = max(slowest, time.Since(begin))
				mu.Unlock()
				if problem := injectedPod(pod, a.Subset); problem != "" {
					t.Errorf("pod of %s: %s: %+v", a.Subset, problem, pod.Spec)
				}
			}
		})
	}
	for i := range 240 {
		work <- i
	}
	close(work)
	clients.Wait()
	// Without late answers: 50, 70 and 120, pods and counts.
	counted := w.counts(ctx)
	if in["a"] > 50 || in["b"] > 70 || in["a"]+in["b"]+late < 120 || in["a"]+in["b"]+in["c"] != 240 {
		t.Errorf("pods: %v, late answers: %d", in, late)
	}
	if counted["a"] > 50 || counted["b"] > 70 || counted["a"]+counted["b"]+late < 120 || counted["a"]+counted["b"]+counted["c"] > 240+late ||
		counted["c"] < in["c"] {
		t.Errorf("counted: %v, pods: %v, late answers: %d", counted, in, late)
	}
	t.Log("the slowest creation took", slowest)
}

// injectedPod says what is missing in a pod as it is stored.
func injectedPod(pod *v1.Pod, subset string) string {
	switch {
	case subset == "a" && (pod.Spec.Priority == nil || *pod.Spec.Priority != -7 || pod.Spec.PreemptionPolicy == nil ||
		*pod.Spec.PreemptionPolicy != v1.PreemptNever):
		return "the priority class of the patch is not resolved"
	case subset == "a" && !pod.Spec.Containers[0].Resources.Requests.Cpu().Equal(resource.MustParse("500m")):
		return "the patch is missing"
	case subset == "a" && (pod.Spec.Affinity == nil ||
		pod.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms[0].MatchExpressions[0].Key != "zone"):
		return "the node selector is missing"
	case subset == "b" && pod.Spec.Tolerations[0].Key != "spot" && pod.Spec.Tolerations[len(pod.Spec.Tolerations)-1].Key != "spot":
		return "the toleration is missing"
	}
	return ""
}

func (w *admissionWorld) dryRun(ctx context.Context, t *testing.T) {
	before := fmt.Sprint(w.counts(ctx))
	if err := w.Create(ctx, w.pod(0), client.DryRunAll); err != nil {
		t.Error(err)
	}
	pod := w.podIn(ctx, "a")
	if err := w.Delete(ctx, pod, client.DryRunAll); err != nil {
		t.Error(err)
	}
	eviction := &policyv1.Eviction{DeleteOptions: &metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}}}
	if err := w.SubResource("eviction").Create(ctx, pod, eviction); err != nil {
		t.Error(err)
	}
	if err := w.Delete(ctx, pod, client.Preconditions{UID: ptr.To(w.owner.UID)}); !apierrors.IsConflict(err) {
		t.Errorf("another UID: %v", err)
	}
	if after := fmt.Sprint(w.counts(ctx)); after != before {
		t.Errorf("%s, before %s", after, before)
	}
}

// podIn is a pod of a subset.
func (w *admissionWorld) podIn(ctx context.Context, subset string) *v1.Pod {
	pods := &v1.PodList{}
	w.must(w.List(ctx, pods, client.InNamespace(spreadNamespace)))
	for i := range pods.Items {
		if a, _ := workloadspread.AssignmentOf(&pods.Items[i]); a.Subset == subset && pods.Items[i].DeletionTimestamp == nil {
			return &pods.Items[i]
		}
	}
	w.t.Fatalf("no pod is in %s", subset)
	return nil
}

// A pod that runs is asked to be evicted in spite of its disruption budget: it keeps its seat, and nothing
// is written. When it is deleted, the next pod gets the seat, without a controller that counts.
func (w *admissionWorld) seats(ctx context.Context, t *testing.T) {
	budget := &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: spreadNamespace, Name: "web"},
		Spec: policyv1.PodDisruptionBudgetSpec{MaxUnavailable: ptr.To(intstr.FromInt32(0)),
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}},
	}
	w.must(w.Create(ctx, budget))
	budget.Status.ObservedGeneration = budget.Generation
	w.must(w.Status().Update(ctx, budget))
	pod := w.podIn(ctx, "a")
	pod.Spec.NodeName, pod.Status.Phase = "", v1.PodRunning
	w.must(w.Status().Update(ctx, pod))
	o := &v1alpha1.WorkloadSpread{}
	w.must(w.Get(ctx, client.ObjectKey{Namespace: spreadNamespace, Name: "web"}, o))
	before := o.ResourceVersion
	for range 2 {
		if err := w.SubResource("eviction").Create(ctx, pod, &policyv1.Eviction{}); !apierrors.IsTooManyRequests(err) {
			t.Errorf("the budget: %v", err)
		}
	}
	w.must(w.Get(ctx, client.ObjectKeyFromObject(o), o))
	if o.ResourceVersion != before {
		t.Error("the status is written")
	}
	next := func() (pod *v1.Pod, place string) {
		pod = w.pod(1)
		w.must(w.Create(ctx, pod))
		a, _ := workloadspread.AssignmentOf(pod)
		return pod, a.Subset + " " + pod.Annotations[workloadspread.AnnotationCost]
	}
	if _, place := next(); place != "c 100" {
		t.Errorf("while all seats of a are taken, the next pod gets %s", place)
	}
	until(ctx, t, "pods that never came do not count", func() bool { return time.Since(o.CreationTimestamp.Time) > 10*time.Second })
	w.must(w.Delete(ctx, pod))
	until(ctx, t, "the server has seen that a seat is free", func() bool {
		created, place := next()
		if place != "a 300" {
			w.must(w.Delete(ctx, created))
		}
		return place == "a 300"
	})
	if _, place := next(); place != "c 100" {
		t.Errorf("once the seat is taken again, the next pod gets %s", place)
	}
}

func (w *admissionWorld) refusedSpecs(ctx context.Context, t *testing.T) {
	refused := func(name, change, field, message string) {
		t.Helper()
		o := changedSpread(t, "metadata: {namespace: spread}")
		merge(o.Object, changedSpread(t, change).Object)
		refusedAt(t, w.Create(ctx, o, client.DryRunAll), name, field, message)
	}
	other := `{metadata: {namespace: spread, name: other}, spec: {targetRef: {kind: ReplicaSet, name: web-1}, subsets: [{name: a, `
	refused("the same target", `metadata: {namespace: spread, name: second}`, "spec.targetRef", "which the WorkloadSpread web spreads")
	refused("a bad operator", other+`requiredNodeSelector: {matchExpressions: [{key: zone, operator: Near}]}}]}}`,
		"spec.subsets[0].requiredNodeSelector.matchExpressions[0].operator", "Near")
	refused("no image", other+`patch: {spec: {containers: [{name: new}]}}}]}}`, "spec.subsets[0].patch", "a container needs an image")
	refused("privileged", other+`patch: {spec: {containers: [{name: main, securityContext: {privileged: true}}]}}}]}}`,
		"spec.subsets[0].patch", "securityContext")
	refused("another service account", other+`patch: {spec: {serviceAccountName: admin}}}]}}`, "spec.subsets[0].patch",
		"spec.serviceAccountName")
	refused("a label of the selector", other+`patch: {metadata: {labels: {app: api}}}}]}}`, "spec.subsets[0].patch",
		"a patch adds labels only")
	of := func(kind, fields string) string {
		return `{metadata: {namespace: spread, name: other}, spec: {targetRef: {kind: ` + kind + `, name: other}, ` + fields + `}}`
	}
	for _, r := range []struct{ name, change, field, message string }{
		{"numbers and percentages", of("Deployment", `subsets: [{name: a, maxReplicas: 5}, {name: b, maxReplicas: 5%}, {name: c}]`),
			"spec.subsets[1].maxReplicas", "must be a number in all subsets"},
		{"too many percent of one", of("Deployment", `subsets: [{name: a, maxReplicas: 101%}, {name: b}]`), "spec.subsets[0].maxReplicas",
			"must not exceed 100%"},
		{"too many percent together", of("Deployment", `subsets: [{name: a, maxReplicas: 40%}, {name: b, maxReplicas: 70%}, {name: c}]`),
			"spec.subsets[1].maxReplicas", "must not exceed 100%"},
		{"too few percent", of("Deployment", `subsets: [{name: a, maxReplicas: 60%}, {name: b, maxReplicas: 39%}]`),
			"spec.subsets[1].maxReplicas", "must be 100% together"},
		{"percentage of a StatefulSet", of("StatefulSet", `subsets: [{name: a, maxReplicas: 60%}, {name: b}]`), "spec.subsets[0].maxReplicas",
			"must be a number for a StatefulSet"},
		{"even percentages", of("Deployment", `distribution: Even, subsets: [{name: a}, {name: b, maxReplicas: 60%}]`),
			"spec.subsets[1].maxReplicas", "use weights"},
		{"weight in order", of("Deployment", `subsets: [{name: a}, {name: b, weight: 1}]`), "spec.subsets[1].weight",
			"for distribution Weighted only"},
		{"base when even", of("Deployment", `distribution: Even, subsets: [{name: a, base: 1}]`), "spec.subsets[0].base",
			"for distribution Weighted only"},
	} {
		refused(r.name, r.change, r.field, r.message)
	}
	none := changedSpread(t, `{metadata: {namespace: spread, name: none}, spec: {subsets: []}}`)
	if err := w.Create(ctx, none, client.DryRunAll); err == nil || strings.Contains(err.Error(), "index out of bounds") {
		t.Errorf("no subsets: %v", err)
	}
	if err := w.Create(ctx, changedSpread(t, `{metadata: {namespace: spread, name: later}, spec: {targetRef: {name: later}}}`),
		client.DryRunAll); err != nil {
		t.Errorf("a target that does not exist: %v", err)
	}
}

// A pod for which there is no room, and one whose patch does not fit, are refused by name.
func (w *admissionWorld) refusedPods(ctx context.Context, t *testing.T) {
	o := &v1alpha1.WorkloadSpread{}
	w.must(w.Get(ctx, client.ObjectKey{Namespace: spreadNamespace, Name: "web"}, o))
	before := o.DeepCopy()
	o.Spec.WhenFull = v1alpha1.WhenFullRefuse
	for i := range o.Spec.Subsets {
		o.Spec.Subsets[i].MaxReplicas = ptr.To(intstr.FromInt32(0))
	}
	w.must(w.Update(ctx, o))
	var err error
	until(ctx, t, "the change is in the caches", func() bool {
		err = w.Create(ctx, w.pod(0))
		return err != nil
	})
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "WorkloadSpread web: no subset has room for the pod") {
		t.Errorf("no room: %v", err)
	}
	w.must(w.Get(ctx, client.ObjectKey{Namespace: spreadNamespace, Name: "web"}, o))
	o.Spec = before.Spec
	o.Spec.Subsets[0].MaxReplicas = ptr.To(intstr.FromInt32(60))
	w.must(w.Update(ctx, o))
	until(ctx, t, "the patch does not fit", func() bool {
		pod := w.pod(0)
		pod.Spec.Containers[0].Name = "other"
		err = w.Create(ctx, pod)
		return apierrors.IsForbidden(err) && strings.Contains(err.Error(),
			"WorkloadSpread web: the patch of subset a: breaks the pod: spec.containers[0].image: Required")
	})
	if counts := w.counts(ctx); counts["a"] != 50 {
		t.Errorf("the pod that is refused is counted: %v", counts)
	}
}
