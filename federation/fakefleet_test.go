package federation

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/podhealth"
)

const (
	normal = time.Minute
	act    = 5 * time.Minute
	stable = 5 * time.Minute
)

var noon = time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)

// place is a member cluster that runs as many pods as it is able to, at once.
type place struct {
	Cluster
	// able is its true capacity, which no decision knows.
	able int32
	// quota is how many pods may be created.
	quota int32
	// refuses is its answer to every write; empty if it accepts them.
	refuses string
	pods    []podhealth.Pod
	// rolls is how its Deployment replaces pods; nil if a content is in all pods at once.
	rolls *deployment
}

// fakeFleet is a host with member clusters.
type fakeFleet struct {
	t      *testing.T
	in     Input
	places []*place
	// writes are all that were made.
	writes []Write
	events []podhealth.Event
	// forgetful worlds have a new controller for every pass: it knows what the API server stores,
	// and nothing else.
	forgetful bool
	// left counts the running replicas that left a cluster, by its name.
	left map[string]int32
}

// weighted are entries by the weights of clusters.
func weighted(weights map[string]int32) *v1alpha1.FederatedPreferences {
	p := &v1alpha1.FederatedPreferences{Rebalance: true, Clusters: map[string]v1alpha1.FederatedPreference{}}
	for name, weight := range weights {
		p.Clusters[name] = entry(-1, -1, weight)
	}
	return p
}

// entry is an entry; negative numbers are unset.
func entry(low, high, weight int32) v1alpha1.FederatedPreference {
	var e v1alpha1.FederatedPreference
	for n, into := range map[*int32]**int32{&low: &e.MinReplicas, &high: &e.MaxReplicas, &weight: &e.Weight} {
		if *n >= 0 {
			*into = n
		}
	}
	return e
}

func specOf(replicas int32, p *v1alpha1.FederatedPreferences) v1alpha1.FederatedReplicaSetSpec {
	return v1alpha1.FederatedReplicaSetSpec{
		Replicas: &replicas,
		Selector: v1alpha1.LabelSelector{MatchLabels: map[string]v1alpha1.LabelValue{"app": "web"}},
		Template: v1alpha1.PodTemplate{
			Metadata: v1alpha1.PodTemplateMetadata{Labels: map[string]v1alpha1.LabelValue{"app": "web"}},
			Spec:     runtime.RawExtension{Raw: []byte(`{"containers":[{"name":"web","image":"web:1"}]}`)},
		},
		Preferences: p,
		Fallback: v1alpha1.FederatedFallback{NormalTime: metav1.Duration{Duration: normal}, StartupTimeout: metav1.Duration{Duration: act},
			StabilizationTime: metav1.Duration{Duration: stable}},
	}
}

// newFakeFleet has empty clusters that are able to run anything.
func newFakeFleet(t *testing.T, spec v1alpha1.FederatedReplicaSetSpec, clusters ...string) *fakeFleet {
	w := &fakeFleet{t: t, in: Input{Key: "shop/web", Generation: 1, Spec: spec, Now: noon}, left: map[string]int32{}}
	for _, name := range clusters {
		w.join(name, nil)
	}
	return w
}

func (w *fakeFleet) join(name string, labels map[string]string) *place {
	p := &place{Cluster: Cluster{Name: name, Labels: labels}, able: 1 << 30, quota: 1 << 30}
	w.places = append(w.places, p)
	return p
}

func (w *fakeFleet) place(name string) *place {
	for _, p := range w.places {
		if p.Name == name {
			return p
		}
	}
	w.t.Helper()
	w.t.Fatalf("no cluster %s", name)
	return nil
}

// run brings the pods to the sizes: those that do not run leave first, and as many run as the
// cluster is able to.
func (w *fakeFleet) run() {
	for _, p := range w.places {
		if p.rolls != nil {
			p.roll(w.in.Now)
			continue
		}
		size := 0
		if p.Local.Exists {
			size = int(min(p.Local.Replicas, p.quota))
		}
		for len(p.pods) < size {
			p.pods = append(p.pods, podhealth.Pod{Created: w.in.Now, Phase: v1.PodPending})
		}
		p.pods = p.pods[:size]
		for j := range p.pods {
			if j < int(p.able) {
				if !p.pods[j].Ready {
					p.pods[j].ReadySince = w.in.Now
				}
				p.pods[j].Phase, p.pods[j].Ready, p.pods[j].WasReady = v1.PodRunning, true, true
			} else {
				p.pods[j] = podhealth.Pod{Created: p.pods[j].Created, Phase: v1.PodPending}
			}
		}
	}
}

// observe fills in what a driver finds.
func (w *fakeFleet) observe() {
	w.in.Clusters = nil
	for _, p := range w.places {
		c := p.Cluster
		c.Local.Normal, c.Local.Act = podhealth.Count(p.pods, normal, w.in.Now), podhealth.Count(p.pods, act, w.in.Now)
		w.in.Clusters = append(w.in.Clusters, c)
	}
}

// pass makes one decision and carries it out.
func (w *fakeFleet) pass() Decision {
	w.t.Helper()
	w.observe()
	d, err := Decide(w.in)
	if err != nil {
		w.t.Fatal(err)
	}
	w.apply(&d)
	if len(d.Writes) == 0 && (d.Next.IsZero() || d.Next.After(w.in.Now.Add(time.Second))) { // nothing is left to do by then
		if again, err := Decide(w.in); err != nil || len(again.Writes) > 0 {
			w.t.Fatalf("nothing was left to do, and then %+v: %v", again.Writes, err)
		}
	}
	return d
}

func (w *fakeFleet) apply(d *Decision) {
	var answers []Answer
	for _, write := range d.Writes {
		p := w.place(write.Cluster)
		if p.Reach != Reachable {
			w.t.Fatalf("written to %s, which is out of reach: %+v", p.Name, write)
		}
		w.writes = append(w.writes, write)
		if p.refuses != "" {
			answers = append(answers, Answer{Write: write, Refused: p.refuses})
			continue
		}
		if running := podhealth.Count(p.pods, act, w.in.Now).Running; write.To < running {
			w.left[p.Name] += running - write.To
		}
		if write.Delete {
			p.Local = Local{}
			continue
		}
		p.Local.Exists, p.Local.Replicas, p.Local.Written = true, write.To, new(write.To)
		if write.Content {
			p.Local.Foreign, p.Local.RolledOut, p.Local.Revision = false, true, Revision(&w.in.Spec)
		}
	}
	status, events := Answered(d.Status, answers, w.in.Now)
	d.Events = append(d.Events, events...)
	w.events = append(w.events, d.Events...)
	w.in.Status = status
	if w.forgetful {
		w.restart()
	}
}

// restart leaves of the status what the API server stores.
func (w *fakeFleet) restart() {
	stored, err := json.Marshal(w.in.Status)
	if err != nil {
		w.t.Fatal(err)
	}
	w.in.Status = v1alpha1.FederatedReplicaSetStatus{}
	if err := json.Unmarshal(stored, &w.in.Status); err != nil {
		w.t.Fatal(err)
	}
}

// converge makes decisions as long as they write anything, the pods starting at once.
func (w *fakeFleet) converge() {
	w.t.Helper()
	for range 1000 {
		w.run()
		d := w.pass()
		w.run()
		if len(d.Writes) == 0 {
			return
		}
	}
	w.t.Fatalf("no end of writes: %s", w.sizes())
}

// wait lets time pass, then settles.
func (w *fakeFleet) wait(d time.Duration) {
	w.t.Helper()
	w.in.Now = w.in.Now.Add(d)
	w.converge()
}

// sizes are the numbers of the local objects, those in clusters that are out of reach included.
func (w *fakeFleet) sizes() string {
	text := ""
	for i, p := range w.places {
		if i > 0 {
			text += " "
		}
		if p.Local.Exists {
			text += fmt.Sprint(p.Local.Replicas)
		} else {
			text += "-"
		}
	}
	return text
}

// want compares the sizes.
func (w *fakeFleet) want(sizes, when string) {
	w.t.Helper()
	if got := w.sizes(); got != sizes {
		w.t.Errorf("%s: %s, want %s\n%s", when, got, sizes, w.explain())
	}
}

// explain is what the status says.
func (w *fakeFleet) explain() string {
	text := ""
	for _, c := range w.in.Status.Clusters {
		text += fmt.Sprintf("  %s desired %d written %d running %d pending %d: %s: %s\n", c.Name, c.Desired, c.Written, c.Running, c.Pending,
			c.Reason, c.Message)
	}
	for _, c := range w.in.Status.Conditions {
		text += fmt.Sprintf("  %s %s %s: %s\n", c.Type, c.Status, c.Reason, c.Message)
	}
	return text
}

// event reports whether there was an event.
func (w *fakeFleet) event(reason string) bool {
	for _, e := range w.events {
		if e.Reason == reason {
			return true
		}
	}
	return false
}

// running is how many pods run in all clusters, those out of reach included.
func (w *fakeFleet) running() (n int32) {
	for _, p := range w.places {
		n += podhealth.Count(p.pods, act, w.in.Now).Running
	}
	return n
}

// randomSpec draws preferences for up to ten clusters.
func randomSpec(r *rand.Rand, names []string) v1alpha1.FederatedReplicaSetSpec {
	p := &v1alpha1.FederatedPreferences{Rebalance: r.IntN(2) == 0, Clusters: map[string]v1alpha1.FederatedPreference{}}
	draw := func() v1alpha1.FederatedPreference {
		low, high := int32(-1), int32(-1)
		if r.IntN(3) == 0 {
			low = r.Int32N(6)
		}
		if r.IntN(3) == 0 {
			high = max(low, 0) + r.Int32N(20)
		}
		return entry(low, high, r.Int32N(10))
	}
	tiers := 1 + r.Int32N(3)/2*(1+r.Int32N(2))
	for _, name := range names {
		if r.IntN(2) == 0 {
			e := draw()
			e.Tier = r.Int32N(tiers)
			p.Clusters[name] = e
		}
	}
	e := draw()
	e.Weight = new(1 + r.Int32N(9))
	e.Tier = r.Int32N(tiers)
	p.Clusters["*"] = e
	if r.IntN(3) == 0 {
		g := draw()
		g.Weight, g.MaxReplicas = new(1+r.Int32N(9)), nil
		g.Tier = r.Int32N(tiers)
		g.Selector = &v1alpha1.ClusterSelector{MatchLabels: map[string]v1alpha1.LabelValue{"region": "eu"}}
		p.Clusters["group"] = g
	}
	s := specOf(r.Int32N(61), p)
	s.Rounding = []v1alpha1.Rounding{"", v1alpha1.RoundWebster, v1alpha1.RoundDHondt}[r.IntN(3)]
	return s
}

func equalJSON(t *testing.T, a, b any) bool {
	t.Helper()
	var texts []string
	for _, v := range []any{a, b} {
		text, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		texts = append(texts, string(text))
	}
	return texts[0] == texts[1]
}
