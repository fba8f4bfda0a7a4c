package e2e

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
)

// Each problem becomes a condition that says what to do, and no other cluster is touched.
func unusableCredentials(ctx context.Context, t *testing.T, f *fleetOfClusters) {
	before := f.becomes(ctx, t, "berlin", v1alpha1.ReasonReady, v1alpha1.ReasonAccepted)
	marker := filepath.Join(t.TempDir(), "ran")
	good, err := os.ReadFile(f.members["berlin"].Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	host, err := os.ReadFile(f.host.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	changed := func(change func(*clientcmdapi.Config, *clientcmdapi.Cluster, *clientcmdapi.AuthInfo)) []byte {
		config, err := clientcmd.Load(good)
		if err != nil {
			t.Fatal(err)
		}
		change(config, config.Clusters["e2e"], config.AuthInfos["e2e"])
		out, err := clientcmd.Write(*config)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	for reason, kubeconfig := range map[string][]byte{
		v1alpha1.ReasonPointsToHost:      host,
		v1alpha1.ReasonAlreadyJoined:     good,
		v1alpha1.ReasonInvalidKubeconfig: []byte("apiVersion: v1\nkind: Config\nusers: top-s3cret\n"),
		v1alpha1.ReasonUnauthorized: changed(func(_ *clientcmdapi.Config, _ *clientcmdapi.Cluster, u *clientcmdapi.AuthInfo) {
			u.Token = "top-s3cret"
		}),
		v1alpha1.ReasonFileRefused: changed(func(_ *clientcmdapi.Config, _ *clientcmdapi.Cluster, u *clientcmdapi.AuthInfo) {
			u.TokenFile = "/etc/top-s3cret"
		}),
		v1alpha1.ReasonPluginRefused: changed(func(_ *clientcmdapi.Config, _ *clientcmdapi.Cluster, u *clientcmdapi.AuthInfo) {
			u.Exec = &clientcmdapi.ExecConfig{APIVersion: "client.authentication.k8s.io/v1", Command: "touch", Args: []string{marker},
				InteractiveMode: clientcmdapi.NeverExecInteractiveMode}
		}),
		v1alpha1.ReasonSecretNotFound: nil,
	} {
		name := strings.ToLower(reason)
		m := &v1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: name}}
		m.Spec.KubeconfigSecretRef.Name = name
		secret := &v1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "evenkeel-system", Name: name},
			Data: map[string][]byte{"kubeconfig": kubeconfig}}
		if kubeconfig == nil {
			secret.Data = map[string][]byte{"other": good}
		}
		for _, o := range []client.Object{secret, m} {
			if err := f.client.Create(ctx, o); err != nil {
				t.Fatal(err)
			}
		}
		f.becomes(ctx, t, name, v1alpha1.ReasonNoCredentials, reason)
		for _, o := range []client.Object{m, secret} {
			if err := f.client.Delete(ctx, o); err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, err := os.Stat(marker); err == nil {
		t.Error("the command of a kubeconfig was run")
	}
	after := f.becomes(ctx, t, "berlin", v1alpha1.ReasonReady, v1alpha1.ReasonAccepted)
	if before.ResourceVersion != after.ResourceVersion {
		t.Errorf("another cluster was touched: %+v", after.Status)
	}
}

// Joining again makes new credentials, and ends the old ones. The cluster stays reachable.
func rotatedCredentials(ctx context.Context, t *testing.T, f *fleetOfClusters) {
	before := f.becomes(ctx, t, "berlin", v1alpha1.ReasonReady, v1alpha1.ReasonAccepted)
	old := f.as(ctx, t, "berlin")
	token := f.token(ctx, t, "berlin")
	pid := f.controller.PID()
	out := f.join(t, "berlin")
	for _, want := range []string{"serviceaccount/evenkeel-member unchanged", "clusterrole/evenkeel-member unchanged",
		"secret/member-berlin updated", "membercluster/berlin unchanged", "and its token deleted"} {
		if !strings.Contains(out, want) {
			t.Errorf("joining again does not say %q:\n%s", want, out)
		}
	}
	if f.token(ctx, t, "berlin") == token {
		t.Error("the token is the same")
	}
	until(ctx, t, "the old credentials are refused", func() bool { return apierrors.IsUnauthorized(old.List(ctx, &appsv1.ReplicaSetList{})) })
	f.becomes(ctx, t, "berlin", v1alpha1.ReasonReady, v1alpha1.ReasonAccepted)
	// It is read with the new credentials: what is created now is seen.
	if f.controller.PID() != pid {
		t.Error("the controller was restarted")
	}
	after := f.becomes(ctx, t, "berlin", v1alpha1.ReasonReady, v1alpha1.ReasonAccepted)
	if was, is := reachableSince(before), reachableSince(after); is.Sub(was) > time.Minute {
		t.Errorf("it was not reachable in between: since %s, before since %s", is, was)
	}
}

func reachableSince(m *v1alpha1.MemberCluster) time.Time {
	return meta.FindStatusCondition(m.Status.Conditions, v1alpha1.ConditionReachable).LastTransitionTime.Time
}

// Neither tokens nor addresses of members are in a log, a metric, a status or an event, even where all
// is logged.
func nothingShown(ctx context.Context, t *testing.T, f *fleetOfClusters, secrets []string) {
	texts := f.shown(ctx, t)
	if !strings.Contains(texts["the metrics"], `evenkeel_member_state{cluster="cork",state="Ready"} 1`) {
		t.Errorf("the metrics do not show the state of a member")
	}
	if len(secrets) < 20 || len(texts["the log"]) < 1000 || len(texts["the events"]) < 1000 {
		t.Fatalf("there is nothing to look for or in: %d secrets, a log of %d bytes, events of %d", len(secrets), len(texts["the log"]),
			len(texts["the events"]))
	}
	noneIn(t, texts, append(secrets, "top-s3cret"))
}

// shown is all that the controllers show.
func (f *fleetOfClusters) shown(ctx context.Context, t *testing.T) map[string]string {
	t.Helper()
	log, err := os.ReadFile(f.controller.Log)
	if err != nil {
		t.Fatal(err)
	}
	code, metrics := scrape(ctx, t, "http://"+f.controller.Address+"/metrics", "", nil)
	if code != http.StatusOK {
		t.Fatalf("%d %s", code, metrics)
	}
	texts := map[string]string{"the log": string(log), "the metrics": metrics}
	for name, list := range map[string]client.ObjectList{
		"the statuses of members": &v1alpha1.MemberClusterList{}, "the statuses of objects": &v1alpha1.FederatedReplicaSetList{},
		"the events": &eventsv1.EventList{},
	} {
		if err := f.client.List(ctx, list); err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(list)
		if err != nil {
			t.Fatal(err)
		}
		texts[name] = string(text)
	}
	return texts
}

// noneIn expects that no secret is in the texts: neither as it is nor as a Secret has it, nor as bytes
// are logged.
func noneIn(t *testing.T, texts map[string]string, secrets []string) {
	t.Helper()
	for where, text := range texts {
		for _, secret := range secrets {
			for _, form := range []string{secret, base64.StdEncoding.EncodeToString([]byte(secret)), hex.EncodeToString([]byte(secret))} {
				if at := strings.Index(text, form); at >= 0 {
					t.Errorf("%s: a secret is in it: %s", where, text[max(0, at-200):min(len(text), at+100)])
				}
			}
		}
		if at := strings.Index(text, "Response Body"); at >= 0 {
			t.Errorf("%s: what was received is in it: %s", where, text[at:min(len(text), at+200)])
		}
	}
}
