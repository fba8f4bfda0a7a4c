package members

import (
	"fmt"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

const refused = "Reachable=Unknown/NoCredentials CredentialsValid=False/"

// The cluster stays ready while its credentials are replaced, and the old ones are not used again.
func TestRotation(t *testing.T) {
	inBubble(t, func(t *testing.T, w *hostHarness) {
		s := w.server("a")
		s.put("replicasets", replicaSet("web", 3))
		w.after(time.Second)
		var states []State
		w.members.Handle(func(name string, _ *Local) {
			if c := w.members.Get(name); c != nil {
				states = append(states, c.View().State)
			}
		})
		s.set(func(s *server) { s.token = "new" })
		w.rotate("a", w.kubeconfigOf("a", "new"))
		w.after(time.Second)
		w.says("a", fine)
		for _, state := range states {
			if state != Ready {
				t.Errorf("in between it was %s", state)
			}
		}
		s.put("replicasets", replicaSet("web", 4))
		w.after(time.Second)
		if r := w.members.Get("a").ReplicaSet("shop", "web"); r == nil || *r.Spec.Replicas != 4 {
			t.Errorf("what happens after it is not seen: %+v", r)
		}
	})
}

// It takes effect without a restart, in both directions.
func TestWrongCredentialsAndBack(t *testing.T) {
	inBubble(t, func(_ *testing.T, w *hostHarness) {
		w.server("a")
		w.after(time.Second)
		w.rotate("a", w.kubeconfigOf("a", "wrong"))
		w.after(time.Second)
		w.says("a", refused+"Unauthorized")
		w.after(2 * time.Minute)
		w.says("a", "Reachable=False/NoCredentials CredentialsValid=False/Unauthorized")
		w.rotate("a", w.kubeconfigOf("a", "token-of-a"))
		w.after(time.Second)
		w.says("a", stabilizes)
		w.after(70 * time.Second)
		w.says("a", fine)
	})
}

func TestCredentialsThatCannotBeUsed(t *testing.T) {
	for reason, change := range map[string]func(*clientcmdapi.Config){
		"PluginRefused":     func(c *clientcmdapi.Config) { c.AuthInfos["u"].Exec = &clientcmdapi.ExecConfig{Command: "/bin/true"} },
		"FileRefused":       func(c *clientcmdapi.Config) { c.AuthInfos["u"].TokenFile = "/s3cr3t" },
		"Expired":           func(c *clientcmdapi.Config) { c.AuthInfos["u"].Token = jwt(time.Unix(1, 0)) },
		"InvalidKubeconfig": func(c *clientcmdapi.Config) { c.CurrentContext = "s3cr3t" },
	} {
		t.Run(reason, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *hostHarness) {
				w.server("b")
				w.after(time.Second)
				before := w.get("b")
				w.join("a", kubeconfig(t, address("a"), "s3cr3t", change))
				w.after(time.Second)
				w.says("a", refused+reason)
				if text := fmt.Sprintf("%+v", w.get("a").Status); strings.Contains(text, "s3cr3t") {
					t.Error(text)
				}
				if e := <-w.events.Events; !strings.HasPrefix(e, "Warning CredentialsRefused") || strings.Contains(e, "s3cr3t") {
					t.Error(e)
				}
				if w.get("b").ResourceVersion != before.ResourceVersion {
					t.Error("another cluster was touched")
				}
				w.after(time.Minute)
				w.says("a", "Reachable=False/NoCredentials CredentialsValid=False/"+reason)
			})
		})
	}
}

func TestSecretAndKeyMustExist(t *testing.T) {
	inBubble(t, func(t *testing.T, w *hostHarness) {
		w.server("a")
		w.after(time.Second)
		secret := &v1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: DefaultNamespace, Name: "member-a"}}
		if err := w.host.Delete(t.Context(), secret); err != nil {
			t.Fatal(err)
		}
		w.poke("a")
		w.after(time.Second)
		w.says("a", refused+"SecretNotFound")
		secret = &v1.Secret{ObjectMeta: secret.ObjectMeta, Data: map[string][]byte{"other": w.kubeconfigOf("a", "token-of-a")}}
		secret.ResourceVersion = ""
		if err := w.host.Create(t.Context(), secret); err != nil {
			t.Fatal(err)
		}
		w.poke("a")
		w.after(time.Second)
		w.says("a", refused+"SecretNotFound")
		m := w.get("a")
		m.Spec.KubeconfigSecretRef.Key = "other"
		if err := w.host.Update(t.Context(), m); err != nil {
			t.Fatal(err)
		}
		w.poke("a")
		w.after(time.Second)
		w.says("a", fine)
	})
}

func TestHostIsNoMember(t *testing.T) {
	inBubble(t, func(_ *testing.T, w *hostHarness) {
		s := newServer(hostUID, "token")
		w.net.up(at("h"), s)
		w.join("h", w.kubeconfigOf("h", "token"))
		w.after(time.Second)
		w.says("h", refused+"PointsToHost")
	})
}

// The MemberCluster that was there first keeps the cluster, over restarts as well, and the other one takes it over
// only when the first has gone.
func TestClusterIsJoinedOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, w *hostHarness) {
		s := w.server("m")
		w.after(time.Second)
		w.join("a", w.kubeconfigOf("m", s.token))
		w.after(time.Second)
		w.says("a", refused+"AlreadyJoined")
		w.says("m", fine)
		if uid := w.get("a").Status.ClusterUID; uid != "" {
			t.Errorf("the other is taken for %s", uid)
		}
		w.stop()
		w.run(w.members.options)
		w.poke("a")
		w.after(time.Second)
		w.poke("m")
		w.after(time.Second)
		w.says("a", refused+"AlreadyJoined")
		w.says("m", fine)
		if err := w.host.Delete(t.Context(), w.get("m")); err != nil {
			t.Fatal(err)
		}
		w.poke("m")
		w.after(time.Second)
		w.says("a", fine)
	})
}

// What may not be read is named, and read as soon as it may be.
func TestMissingRightsAreNamed(t *testing.T) {
	for denies, says := range map[string]string{"namespaces": "kube-system", "replicasets": "list and watch ReplicaSets",
		"pods": "list and watch Pods"} {
		t.Run(denies, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *hostHarness) {
				s := newServer("uid-of-a", "token-of-a")
				s.denies = denies
				w.net.up(at("a"), s)
				w.join("a", w.kubeconfigOf("a", s.token))
				w.after(30 * time.Second)
				w.says("a", refused+"Forbidden")
				if text := fmt.Sprintf("%+v", w.get("a").Status); !strings.Contains(text, says) || strings.Contains(text, "s3cr3t") {
					t.Error(text)
				}
				s.set(func(s *server) { s.denies = "" })
				w.after(25 * time.Second)
				w.says("a", fine)
			})
		})
	}
}

// A redirect does not carry credentials elsewhere.
func TestRedirectsAreNotFollowed(t *testing.T) {
	inBubble(t, func(t *testing.T, w *hostHarness) {
		s := w.server("a")
		w.after(time.Second)
		elsewhere := newServer("uid-of-b", "token-of-a")
		w.net.up(at("b"), elsewhere)
		s.set(func(s *server) { s.redirect = address("b") })
		w.after(30 * time.Second)
		w.says("a", notAnswers)
		if n := elsewhere.called("GET /readyz"); n != 0 {
			t.Errorf("%d calls elsewhere", n)
		}
	})
}
