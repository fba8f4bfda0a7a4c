package e2e

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	v1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/evenkeel/evenkeel/e2e/controlplane"
	"github.com/evenkeel/evenkeel/e2e/evenkeel"
	"github.com/evenkeel/evenkeel/e2e/process"
	"github.com/evenkeel/evenkeel/internal/serving"
)

// Metrics have TLS and are for those only who may get them. The controller has the rights and the
// flags of the manifests.
func metricsAreForThoseWhoMay(ctx context.Context, t *testing.T, plane *controlplane.ControlPlane, c client.Client) {
	for _, o := range read(t, "../controller/deploy") {
		if o.GetKind() == "ClusterRoleBinding" {
			if err := plane.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(o), client.FieldOwner("e2e"),
				client.ForceOwnership); err != nil {
				t.Fatal(err)
			}
		}
	}
	reader, stranger := tokenOf(ctx, t, c, "prometheus"), tokenOf(ctx, t, c, "stranger")
	if err := c.Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "prometheus-reads-evenkeel"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "evenkeel-metrics-reader"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: metav1.NamespaceDefault, Name: "prometheus"}},
	}); err != nil {
		t.Fatal(err)
	}
	kubeconfig := plane.KubeconfigAs(t, "system:serviceaccount:evenkeel-system:evenkeel-controller", "system:serviceaccounts",
		"system:authenticated")
	folder := t.TempDir()
	roots := newPair(t, folder)
	checked := evenkeel.StartController(t, evenkeel.ControllerOptions{Kubeconfig: kubeconfig,
		Args: shippedFlags(t, "../controller/certificates", folder)})
	unchecked := evenkeel.StartController(t, evenkeel.ControllerOptions{Kubeconfig: kubeconfig,
		Args: append(shippedFlags(t, "../controller/deploy", folder), "--metrics-secure")})
	for name, s := range map[string]struct {
		controller *evenkeel.Controller
		trust      *tls.Config
	}{
		"a certificate of the operator": {checked, &tls.Config{RootCAs: roots}},
		"a certificate of its own":      {unchecked, &tls.Config{InsecureSkipVerify: true}},
	} {
		t.Run(name, func(t *testing.T) { onlyReaders(ctx, t, s.controller, s.trust, reader, stranger) })
	}
	t.Run("a renewed certificate", func(t *testing.T) {
		renewed := newPair(t, folder)
		until(ctx, t, "the renewed certificate is shown", func() bool {
			code, _ := scrape(ctx, t, "https://"+checked.Address+"/metrics", reader, &tls.Config{RootCAs: renewed})
			return code == http.StatusOK
		})
	})
	t.Run("without the right to ask", func(t *testing.T) {
		if err := c.Delete(ctx,
			&rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "evenkeel-controller-auth-delegator"}}); err != nil {
			t.Fatal(err)
		}
		until(ctx, t, "nobody gets the metrics", func() bool { // a token that it has not seen
			code, _ := scrape(ctx, t, "https://"+unchecked.Address+"/metrics", tokenOf(ctx, t, c, "prometheus"),
				&tls.Config{InsecureSkipVerify: true})
			return code == http.StatusInternalServerError
		})
		if log := unchecked.Tail(20); !strings.Contains(log, "bind the ClusterRole system:auth-delegator to this user") {
			t.Errorf("the log does not tell the remedy:\n%s", log)
		}
	})
	for _, s := range []*evenkeel.Controller{checked, unchecked} {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	}
}

func onlyReaders(ctx context.Context, t *testing.T, s *evenkeel.Controller, trust *tls.Config, reader, stranger string) {
	secure := "https://" + s.Address
	until(ctx, t, "the controller is ready", func() bool {
		code, _ := scrape(ctx, t, "http://"+s.Health+"/readyz", "", trust)
		return code == http.StatusOK
	})
	for what, test := range map[string]struct {
		url, token string
		code       int
		text       string
	}{
		"no token": {secure + "/metrics", "", http.StatusUnauthorized, "a bearer token is needed"},
		"garbage":  {secure + "/metrics", "garbage", http.StatusUnauthorized, "the token is not valid"},
		"without the right": {secure + "/metrics", stranger, http.StatusForbidden,
			`user "system:serviceaccount:default:stranger" may not get /metrics`},
		"a reader":                  {secure + "/metrics", reader, http.StatusOK, "evenkeel_build_info{"},
		"in plain text":             {"http://" + s.Address + "/metrics", "", http.StatusBadRequest, "HTTPS"},
		"a probe":                   {secure + "/healthz", "", http.StatusOK, "ok"},
		"a probe in plain text":     {"http://" + s.Health + "/readyz?verbose", "", http.StatusOK, "[+]caches ok"},
		"metrics beside the probes": {"http://" + s.Health + "/metrics", reader, http.StatusNotFound, ""},
	} {
		if code, text := scrape(ctx, t, test.url, test.token, trust); code != test.code || !strings.Contains(text, test.text) {
			t.Errorf("%s: got %d %.200q, want %d %q", what, code, text, test.code, test.text)
		}
	}
}

// With the rights of the manifests the sidecar keeps its metrics and status to those who may get
// them.
func metricsOfASidecar(ctx context.Context, t *testing.T, plane *controlplane.ControlPlane) {
	c := plane.Client
	scenario, err := filepath.Abs("../configs/fleets/three-zones.yaml")
	if err != nil {
		t.Fatal(err)
	}
	cloud := evenkeel.StartFakeCloud(t, plane.Kubeconfig, scenario)
	s := evenkeel.StartSidecar(t, evenkeel.SidecarOptions{
		Kubeconfig: plane.KubeconfigAs(t, "system:serviceaccount:kube-system:cluster-autoscaler", "system:serviceaccounts",
			"system:authenticated"),
		Backend: cloud.Address, Args: []string{"--metrics-secure"},
	})
	page := func(path, token string) (int, string) {
		return scrape(ctx, t, "https://"+s.Metrics+path, token, &tls.Config{InsecureSkipVerify: true})
	}
	reader := tokenOf(ctx, t, c, "reader")
	if code, _ := page("/metrics", reader); code != http.StatusForbidden {
		t.Errorf("without the right: got %d", code)
	}
	if err := c.Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "reader"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "evenkeel-sidecar-reader"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: metav1.NamespaceDefault, Name: "reader"}},
	}); err != nil {
		t.Fatal(err)
	}
	until(ctx, t, "who may gets the metrics", func() bool {
		code, text := page("/metrics", reader)
		return code == http.StatusOK && strings.Contains(text, "evenkeel_sidecar_mode{")
	})
	if code, text := page("/status?format=json", reader); code != http.StatusOK || !strings.Contains(text, `"mode"`) {
		t.Errorf("status: got %d %.200s", code, text)
	}
	for _, path := range []string{"/metrics", "/status"} {
		if code, _ := page(path, ""); code != http.StatusUnauthorized {
			t.Errorf("%s without a token: got %d", path, code)
		}
		if code, _ := page(path, tokenOf(ctx, t, c, "stranger")); code != http.StatusForbidden {
			t.Errorf("%s for a stranger: got %d", path, code)
		}
	}
}

// scrape gets a page over a connection of its own, with a token unless that is empty. Code 0 means
// no answer.
func scrape(ctx context.Context, t *testing.T, url, token string, trust *tls.Config) (code int, text string) {
	t.Helper()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	scraper := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: trust}, Timeout: 30 * time.Second}
	response, err := scraper.Do(request)
	if err != nil {
		return 0, err.Error()
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(body)
}

// tokenOf has the API server make a token of a service account, which may be there already.
func tokenOf(ctx context.Context, t *testing.T, c client.Client, name string) string {
	t.Helper()
	account := &v1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: name}}
	if err := client.IgnoreAlreadyExists(c.Create(ctx, account)); err != nil {
		t.Fatal(err)
	}
	token := &authenticationv1.TokenRequest{}
	if err := c.SubResource("token").Create(ctx, account, token); err != nil {
		t.Fatal(err)
	}
	return token.Status.Token
}

// newPair writes a certificate and its key, as a Secret is mounted, and returns the authority.
func newPair(t *testing.T, folder string) *x509.CertPool {
	t.Helper()
	authority, err := serving.NewAuthority(time.Now(), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	pair, err := authority.Server("127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string][]byte{"tls.crt": pair.Cert, "tls.key": pair.Key} {
		if err := os.WriteFile(filepath.Join(folder, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(authority.Cert)
	return roots
}

// shippedFlags are those that manifests start the controller with, but for its addresses. Secrets
// are mounted at folder.
func shippedFlags(t *testing.T, manifests, folder string) []string {
	t.Helper()
	var flags []string
	for _, o := range read(t, manifests) {
		if o.GetKind() != "Deployment" {
			continue
		}
		var d appsv1.Deployment
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &d); err != nil {
			t.Fatal(err)
		}
		for _, arg := range d.Spec.Template.Spec.Containers[0].Args[1:] {
			if strings.HasPrefix(arg, "--webhook-address=") {
				arg = "--webhook-address=" + process.FreeAddress(t) // there are several on this machine
			}
			if !strings.HasPrefix(arg, "--metrics-address=") && !strings.HasPrefix(arg, "--health-address=") {
				flags = append(flags, strings.Replace(arg, "=/tls/", "="+folder+"/", 1))
			}
		}
	}
	return flags
}
