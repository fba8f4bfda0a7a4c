package admission

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	admissionv1 "k8s.io/api/admission/v1"
	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/workloadspread"
)

func webSpread(t testing.TB, rest string) *v1alpha1.WorkloadSpread {
	return spreadOf(t, "web", `{targetRef: {apiVersion: apps/v1, kind: Deployment, name: web}, `+rest+`}`)
}

// resize changes the replicas of the Deployment web.
func (w *webhookHarness) resize(replicas int32) {
	w.t.Helper()
	d := &appsv1.Deployment{}
	if err := w.Get(w.t.Context(), types.NamespacedName{Namespace: "shop", Name: "web"}, d); err != nil {
		w.t.Fatal(err)
	}
	d.Spec.Replicas = &replicas
	if err := w.Update(w.t.Context(), d); err != nil {
		w.t.Fatal(err)
	}
}

// admitted creates pods and says where they are.
func (w *webhookHarness) admitted(n int) string {
	var in []string
	for range n {
		pod, _ := w.create(podOfWeb)
		in = append(in, subsetOf(pod))
	}
	return strings.Join(in, " ")
}

// Replicas are read when a pod is created wherever limits depend on them, and again before a pod is
// refused.
func TestReplicasAreReadLive(t *testing.T) {
	for name, test := range map[string]struct {
		rest        string
		first, then string // pods while there are 2 replicas, and after there are 6
	}{
		"percentages":         {`subsets: [{name: a, maxReplicas: 50%}, {name: b, maxReplicas: 50%}]`, "a b", "a b a b"},
		"a minimum":           {`subsets: [{name: a, maxReplicas: 6}, {name: b, minReplicas: 2, maxReplicas: 6}]`, "b b", "a a a a"},
		"even":                {`distribution: Even, subsets: [{name: a}, {name: b}]`, "a b", "a b a b"},
		"weighted":            {`distribution: Weighted, subsets: [{name: a, weight: 1}, {name: b, weight: 2}]`, "b a", "b b a b"},
		"numbers, and a full": {`subsets: [{name: a, maxReplicas: 2}], whenFull: Admit`, "a a", "   "},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWebhookHarness(t, Options{}, append(deployment(2), webSpread(t, test.rest))...)
			if got := w.admitted(2); got != test.first {
				t.Errorf("first %q, not %q", got, test.first)
			}
			w.resize(6)
			if got := w.admitted(4); got != test.then {
				t.Errorf("then %q, not %q", got, test.then)
			}
		})
	}
}

func TestNoSubsetIsOpen(t *testing.T) {
	t.Run("admitted", func(t *testing.T) {
		w := newWebhookHarness(t, Options{}, append(deployment(5), webSpread(t, `subsets: [{name: a, maxReplicas: 1}]`))...)
		if got := w.admitted(1); got != "a" {
			t.Error(got)
		}
		for range 3 {
			pod, _ := w.create(podOfWeb)
			if a, ok := workloadspread.AssignmentOf(pod); !ok || a.Name != "web" || a.Subset != "" {
				t.Errorf("%+v", a)
			}
		}
		for range 3 { // which the recorder counts as one
			if event := <-w.events; !strings.Contains(event, "Warning NoRoom a new pod belongs to no subset") {
				t.Error(event)
			}
		}
	})
	t.Run("refused", func(t *testing.T) {
		w := newWebhookHarness(t, Options{}, append(deployment(5), webSpread(t, `whenFull: Refuse, subsets: [{name: a, maxReplicas: 1}]`))...)
		w.admitted(1)
		_, text, answer := w.call(PathMutatePods, createRequest(podOfWeb))
		if answer.Allowed || answer.Result.Code != http.StatusForbidden ||
			!strings.Contains(text,
				"WorkloadSpread web: no subset has room for the pod: wait until one has, raise maxReplicas, or set whenFull to Admit") {
			t.Errorf("%+v", answer.Result)
		}
		if event := <-w.events; !strings.Contains(event, "Warning NoRoom a new pod is refused") {
			t.Error(event)
		}
	})
}

// A pod that replaces one that is being deleted or gone gets its place at once; one that an eviction
// leaves where it is keeps it, and nothing is written for that.
func TestASeatIsFreeWhenItsPodIsBeingDeleted(t *testing.T) {
	w, pod := created(t)
	if got := w.admitted(5); got != "a a b b b" {
		t.Errorf("%q while the pod is there", got)
	}
	before := w.spread("web").ResourceVersion
	if got := w.admitted(1); got != "b" || w.spread("web").ResourceVersion != before {
		t.Errorf("%q, and the status is written", got)
	}
	pod.Finalizers = []string{"example.com/wait"}
	if err := w.Update(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	if err := w.Client.Delete(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	if got := w.admitted(2); got != "a b" {
		t.Errorf("%q while the pod is being deleted", got)
	}
}

// An annotation that is copied to a pod of somebody else takes no place, and frees none.
func TestAPodOfNobodyIsNotCounted(t *testing.T) {
	w, pod := created(t)
	if err := w.Client.Delete(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	for i, owners := range [][]metav1.OwnerReference{nil, {controlledBy("ReplicaSet", "stranger")}} {
		other := pod.DeepCopy()
		other.ResourceVersion, other.Name, other.UID, other.OwnerReferences = "", fmt.Sprint("copy-", i), types.UID(fmt.Sprint("copy-", i)),
			owners
		if err := w.Create(t.Context(), other); err != nil {
			t.Fatal(err)
		}
	}
	w.clock = clocktesting.NewFakePassiveClock(time.Now().Add(time.Minute))
	if got := w.admitted(4); got != "a a a b" {
		t.Errorf("%q", got)
	}
}

// created is a world with a pod of subset a, as it was stored.
func created(t *testing.T) (*webhookHarness, *v1.Pod) {
	w := newWebhookHarness(t, Options{}, append(deployment(5), spreadOf(t, "web", twoSubsets))...)
	pod, text := w.create(podOfWeb)
	if pod == nil {
		t.Fatal(text)
	}
	pod.Namespace, pod.Name, pod.UID = "shop", "web-1-abc", "uid-pod"
	if err := w.Create(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	return w, pod
}

// A pod whose patch does not fit is refused, and not counted. A patch that fits none was stored before it was
// refused: its WorkloadSpread has no pods.
func TestAPatchThatDoesNotFitThePod(t *testing.T) {
	for name, c := range map[string]struct{ patch, want string }{
		"breaks it":   {`{spec: {containers: [{name: other}]}}`, "refused"},
		"the labels":  {`{metadata: {labels: {app: api}}}`, "refused"},
		"privileges":  {`{spec: {hostNetwork: true}}`, "not marked"},
		"its subset":  {`{metadata: {annotations: {evenkeel.dev/workload-spread: x}}}`, "not marked"},
		"its account": {`{spec: {serviceAccountName: admin}}`, "not marked"},
	} {
		for _, most := range []string{"", ", maxReplicas: 3"} {
			t.Run(name+most, func(t *testing.T) {
				w := newWebhookHarness(t, Options{}, append(deployment(5), webSpread(t, `subsets: [{name: a`+most+`, patch: `+c.patch+`}]`))...)
				pod, text := w.create(podOfWeb)
				if got := subsetOf(pod); got != c.want || pod == nil && !strings.Contains(text, "WorkloadSpread web: the patch of subset a: ") ||
					len(w.used("web")) != 0 {
					t.Errorf("%s: %s, %v", got, text, w.used("web"))
				}
				if pod != nil && (pod.Spec.HostNetwork || pod.Spec.ServiceAccountName != "") {
					t.Errorf("%+v", pod.Spec)
				}
			})
		}
	}
}

type room []workloadspread.Room

// simulator says the same of every pod, and notes the subset of the pod that was created.
type simulator struct {
	room    room
	created string
}

func (r *simulator) Decided(pod *v1.Pod, created bool) {
	if a, _ := workloadspread.AssignmentOf(pod); created && a.ID != "" {
		r.created = a.Subset
	}
}

func (r *simulator) Room(_ context.Context, pods []*v1.Pod) []workloadspread.Room {
	if len(pods) != 2 || pods[0].Spec.Affinity == nil || pods[1].Spec.Affinity != nil {
		panic(fmt.Sprintf("not the pod in each subset: %+v", pods))
	}
	return r.room
}

func TestTheSimulatorIsAskedAboutAdaptiveSpreads(t *testing.T) {
	const subsets = `subsets: [{name: a, requiredNodeSelector: {matchExpressions: [{key: zone, operator: Exists}]}}, {name: b}]`
	for name, test := range map[string]struct {
		rest string
		room room
		want string
	}{
		"room on a node":    {`scheduleStrategy: {type: Adaptive}, `, room{workloadspread.RoomOnNode, workloadspread.RoomOnNode}, "a"},
		"none":              {`scheduleStrategy: {type: Adaptive}, `, room{workloadspread.RoomNone, workloadspread.RoomOnNode}, "b"},
		"by the autoscaler": {`scheduleStrategy: {type: Adaptive}, `, room{workloadspread.RoomByAutoscaler, workloadspread.RoomOnNode}, "a"},
		"none, fixed":       {``, room{workloadspread.RoomNone, workloadspread.RoomOnNode}, "a"},
		"none, switched off": {`scheduleStrategy: {type: Adaptive, adaptive: {disableSimulationSchedule: true}}, `,
			room{workloadspread.RoomNone, workloadspread.RoomOnNode}, "a"},
	} {
		t.Run(name, func(t *testing.T) {
			s := &simulator{room: test.room}
			w := newWebhookHarness(t, Options{Simulator: s}, append(deployment(5), webSpread(t, test.rest+subsets))...)
			if got := w.admitted(1); got != test.want {
				t.Errorf("%s, not %s", got, test.want)
			}
			asked := strings.HasPrefix(test.rest, "scheduleStrategy") && !strings.Contains(test.rest, "disable")
			if asked && s.created != test.want || !asked && s.created != "" {
				t.Errorf("the simulator hears of subset %q", s.created)
			}
		})
	}
}

// A single subset without a bound needs no count, and no write.
func TestNothingIsWrittenWithoutABound(t *testing.T) {
	w := newWebhookHarness(t, Options{}, append(deployment(5), webSpread(t, `subsets: [{name: a}]`))...)
	before := w.spread("web").ResourceVersion
	if got := w.admitted(2); got != "a a" || w.spread("web").ResourceVersion != before {
		t.Errorf("%s: %+v", got, w.spread("web").Status)
	}
}

// Pods of a StatefulSet get their subset by their ordinal, and nothing is written.
func TestPodsOfAStatefulSet(t *testing.T) {
	set := &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "db", UID: "uid-db"},
		Spec:       appsv1.StatefulSetSpec{Replicas: ptr.To[int32](5), Ordinals: &appsv1.StatefulSetOrdinals{Start: 10}},
	}
	w := newWebhookHarness(t, Options{}, set, spreadOf(t, "db",
		`{targetRef: {apiVersion: apps/v1, kind: StatefulSet, name: db}, subsets: [{name: a, maxReplicas: 2}, {name: b}]}`))
	for name, want := range map[string]string{"db-10": "a", "db-11": "a", "db-12": "b", "db-30": "b"} {
		pod, text := w.create(`{"metadata":{"name":"` + name +
			`","ownerReferences":[{"apiVersion":"apps/v1","kind":"StatefulSet","name":"db","uid":"uid-db","controller":true}]},"spec":{"containers":[{"name":"main","image":"db"}]}}`)
		a, _ := workloadspread.AssignmentOf(orEmpty(pod))
		if a != (workloadspread.Assignment{Name: "db", Subset: want}) {
			t.Errorf("%s: %+v, not %s: %s", name, a, want, text)
		}
	}
	if len(w.spread("db").Status.VersionedSubsetStatuses) != 0 {
		t.Errorf("%+v", w.spread("db").Status)
	}
}

func TestExemptRequests(t *testing.T) {
	w := newWebhookHarness(t, Options{Namespace: "evenkeel"}, append(deployment(5), spreadOf(t, "web", twoSubsets))...)
	for name, r := range map[string]admissionv1.AdmissionRequest{
		"a dry run":           {Operation: admissionv1.Create, DryRun: ptr.To(true)},
		"its own namespace":   {Operation: admissionv1.Create, Namespace: "evenkeel"},
		"another operation":   {Operation: admissionv1.Update},
		"another subresource": {Operation: admissionv1.Create, SubResource: "binding"},
	} {
		r.Object.Raw = []byte(podOfWeb)
		if _, _, answer := w.call(PathMutatePods, r); answer == nil || !answer.Allowed || answer.Patch != nil {
			t.Errorf("%s: %+v", name, answer)
		}
	}
	if len(w.used("web")) != 0 {
		t.Errorf("%v", w.used("web"))
	}
}

// ahead is a cache that has an older WorkloadSpread than the API server.
type ahead struct {
	client.Reader
	old v1alpha1.WorkloadSpread
}

func (a *ahead) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	list.(*v1alpha1.WorkloadSpreadList).Items = []v1alpha1.WorkloadSpread{*a.old.DeepCopy()}
	return nil
}

// A pod gets the rules of the newest spec, even if the cache has an older one.
func TestASpecThatHasJustChanged(t *testing.T) {
	now := webSpread(t, `subsets: [{name: first, maxReplicas: 5}, {name: second}]`)
	now.Generation = 2
	w := newWebhookHarness(t, Options{}, append(deployment(5), now)...)
	old := webSpread(t, `subsets: [{name: gone, maxReplicas: 5}, {name: second}]`)
	old.Generation = 1
	w.reader.Spreads = &ahead{w.Client, *old}
	if got := w.admitted(1); got != "first" {
		t.Error(got)
	}
	if err := w.Delete(t.Context(), now); err != nil {
		t.Fatal(err)
	}
	if got := w.admitted(1); got != "not marked" {
		t.Errorf("after it was deleted: %s", got)
	}
}

// A decision that is made again, since somebody else has written first, rests on the newest spec and on a new count of the
// pods, but not on another reading of the workload.
func TestADecisionIsMadeAgain(t *testing.T) {
	for name, test := range map[string]struct {
		rest        string
		later       time.Duration
		meanwhile   func(*webhookHarness, *v1alpha1.WorkloadSpread) error // while a pod is admitted after two others
		want        string
		deployments int // how often one is read: once to find the WorkloadSpread
	}{
		"the status": {`subsets: [{name: a, maxReplicas: 1}, {name: b, maxReplicas: 1}]`, time.Minute, // the two were not created
			func(w *webhookHarness, o *v1alpha1.WorkloadSpread) error { return w.Status().Update(w.t.Context(), o) }, "a", 2},
		"the spec": {`subsets: [{name: a, maxReplicas: 50%}, {name: b}]`, 0,
			func(w *webhookHarness, o *v1alpha1.WorkloadSpread) error {
				o.Spec.TargetFilter = &v1alpha1.WorkloadFilter{ReplicasPathList: []string{"spec.replicas", "spec.replicas"}}
				o.Generation = 2
				return w.Update(w.t.Context(), o)
			}, "a", 3},
		"another one of that name": {`subsets: [{name: a, maxReplicas: 50%}, {name: b}]`, 0,
			func(w *webhookHarness, o *v1alpha1.WorkloadSpread) error {
				made := webSpread(w.t, `subsets: [{name: c, maxReplicas: 0}, {name: d, maxReplicas: 0}, {name: e}]`)
				made.UID = "made anew"
				return errors.Join(w.Delete(w.t.Context(), o), w.Create(w.t.Context(), made))
			}, "e", 3},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWebhookHarness(t, Options{}, append(deployment(2), webSpread(t, test.rest))...)
			if got := w.admitted(2); got != "a b" {
				t.Fatalf("first %q", got)
			}
			first := true
			w.gets["Deployment"] = 0
			other := &webhookHarness{t: t, Client: w.Client, requests: 100, Server: newServerOf(interceptor.NewClient(w.Client.(client.WithWatch),
				interceptor.Funcs{SubResourceUpdate: func(ctx context.Context, c client.Client, kind string, object client.Object,
					opts ...client.SubResourceUpdateOption) error {
					if first {
						first = false
						if err := test.meanwhile(w, w.spread("web")); err != nil {
							t.Error(err)
						}
					}
					return c.SubResource(kind).Update(ctx, object, opts...)
				}}))}
			other.clock = clocktesting.NewFakePassiveClock(time.Now().Add(test.later))
			if got := other.admitted(1); got != test.want || first || w.gets["Deployment"] != test.deployments {
				t.Errorf("%q after the Deployment was read %d times; %v", got, w.gets["Deployment"], w.used("web"))
			}
		})
	}
}

// Failures are not refusals: the failure policy decides.
func TestCreationsThatCannotBeAnswered(t *testing.T) {
	for kind, want := range map[string]string{
		"PartialObjectMetadata": "evenkeel: finding the WorkloadSpread of the pod: ",
		"ReplicaSet":            "evenkeel: finding the WorkloadSpread of the pod: ",
		"Deployment":            "evenkeel: ",
	} {
		w := newWebhookHarness(t, Options{}, append(deployment(5), spreadOf(t, "web", twoSubsets))...)
		w.failing[kind] = errors.New("no route to host")
		code, text, _ := w.call(PathMutatePods, createRequest(podOfWeb))
		if kind == "PartialObjectMetadata" && code == http.StatusOK {
			continue // it has the kind of the object
		}
		if code != http.StatusInternalServerError || !strings.Contains(text, want) || !strings.Contains(text, "no route to host") {
			t.Errorf("%s: %d: %s", kind, code, text)
		}
	}
}

func TestRequestsThatCannotBeRead(t *testing.T) {
	w := newWebhookHarness(t, Options{})
	for body, want := range map[string]string{
		``:  "not an AdmissionReview",
		`{`: "not an AdmissionReview",
		`{"apiVersion":"admission.k8s.io/v1beta1","kind":"AdmissionReview","request":{"uid":"1"}}`: "not an AdmissionReview " +
			"of admission.k8s.io/v1",
		`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview"}`: "with a request",
		strings.Repeat(" ", largestReview+1):                            "too large",
	} {
		answer := httptest.NewRecorder()
		w.Handlers()[PathMutatePods].ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), http.MethodPost, PathMutatePods,
			strings.NewReader(body)))
		if answer.Code != http.StatusBadRequest || !strings.Contains(answer.Body.String(), want) {
			t.Errorf("%.40q: %d: %s", body, answer.Code, answer.Body)
		}
	}
	for path, r := range map[string]admissionv1.AdmissionRequest{
		PathMutatePods: {Operation: admissionv1.Create}, PathValidateSpreads: {Operation: admissionv1.Create},
	} {
		if code, text, _ := w.call(path, r); code != http.StatusInternalServerError || !strings.Contains(text, "reading the ") {
			t.Errorf("%s: %d: %s", path, code, text)
		}
	}
}

func TestTimeouts(t *testing.T) {
	for query, want := range map[string]time.Duration{"?timeout=10s": 9750 * time.Millisecond, "?timeout=400ms": 200 * time.Millisecond, "": 0,
		"?timeout=x": 0, "?timeout=-1s": 0} {
		begin := clock.RealClock{}.Now()
		ctx, cancel := withinTimeout(httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/"+query, nil))
		end, ok := ctx.Deadline()
		left := end.Sub(begin)
		if ok != (want > 0) || ok && (left < want || left > want+time.Minute) {
			t.Errorf("%s: %s", query, left)
		}
		cancel()
	}
}

func TestMetrics(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	metrics, err := NewMetrics(registry)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := NewMetrics(registry); err == nil {
		t.Error("registered twice")
	}
	w := newWebhookHarness(t, Options{Metrics: metrics},
		append(deployment(5), webSpread(t, `whenFull: Refuse, subsets: [{name: a, maxReplicas: 1}]`))...)
	w.admitted(3)
	w.call(PathMutatePods, admissionv1.AdmissionRequest{Operation: admissionv1.Create})
	const want = `
# HELP evenkeel_workloadspread_admitted_pods_total New pods, by WorkloadSpread and subset. The subset is empty for pods that no subset had room for.
# TYPE evenkeel_workloadspread_admitted_pods_total counter
evenkeel_workloadspread_admitted_pods_total{name="web",namespace="shop",subset="a"} 1
# HELP evenkeel_workloadspread_webhook_failures_total Calls that could not be answered, by webhook. The failure policy of the webhook says what happens then.
# TYPE evenkeel_workloadspread_webhook_failures_total counter
evenkeel_workloadspread_webhook_failures_total{webhook="/mutate-pods"} 1
evenkeel_workloadspread_webhook_failures_total{webhook="/validate-workloadspreads"} 0
# HELP evenkeel_workloadspread_webhook_refusals_total Pods and WorkloadSpreads that were refused, by reason.
# TYPE evenkeel_workloadspread_webhook_refusals_total counter
evenkeel_workloadspread_webhook_refusals_total{reason="NoRoom"} 2
evenkeel_workloadspread_webhook_refusals_total{reason="OwnerUnknown"} 0
evenkeel_workloadspread_webhook_refusals_total{reason="PatchRefused"} 0
evenkeel_workloadspread_webhook_refusals_total{reason="SpecRefused"} 0
`
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want), "evenkeel_workloadspread_admitted_pods_total",
		"evenkeel_workloadspread_webhook_failures_total", "evenkeel_workloadspread_webhook_refusals_total"); err != nil {
		t.Error(err)
	}
	if problems, err := testutil.GatherAndLint(registry); err != nil || len(problems) > 0 {
		t.Error(problems, err)
	}
	w.forget(client.ObjectKeyFromObject(w.spread("web")))
	if n := testutil.CollectAndCount(metrics.admissions); n != 0 {
		t.Errorf("%d are left", n)
	}
}
