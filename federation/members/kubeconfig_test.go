package members

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

const secret = "s3cr3t"

// jwt is a token as a service account has, which expires then.
func jwt(expires time.Time) string {
	payload := base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, `{"exp": %d}`, expires.Unix()))
	return "e30." + payload + ".s3cr3t"
}

func TestReadKubeconfig(t *testing.T) {
	type config = clientcmdapi.Config
	for name, test := range map[string]struct {
		change  func(*config)
		reason  string // empty: it is accepted
		says    string
		expires time.Time
	}{
		"a token":           {change: func(*config) {}},
		"a token that ends": {change: func(c *config) { c.AuthInfos["u"].Token = jwt(noon.Add(time.Hour)) }, expires: noon.Add(time.Hour)},
		"an expired token": {change: func(c *config) { c.AuthInfos["u"].Token = jwt(noon) }, reason: v1alpha1.ReasonExpired,
			says: "expired on 2026-01-01T12:00:00Z"},
		"a token like a JWT": {change: func(c *config) { c.AuthInfos["u"].Token = "a.s3cr3t.c" }},
		"a command": {change: func(c *config) { c.AuthInfos["u"].Exec = &clientcmdapi.ExecConfig{Command: secret} },
			reason: v1alpha1.ReasonPluginRefused, says: "(exec)"},
		"a plugin": {change: func(c *config) { c.AuthInfos["u"].AuthProvider = &clientcmdapi.AuthProviderConfig{Name: secret} },
			reason: v1alpha1.ReasonPluginRefused, says: "(auth-provider)"},
		"a file of a token": {change: func(c *config) { c.AuthInfos["u"].TokenFile = "/" + secret }, reason: v1alpha1.ReasonFileRefused,
			says: "tokenFile"},
		"a certificate file": {change: func(c *config) { c.AuthInfos["u"].ClientCertificate = "/" + secret }, reason: v1alpha1.ReasonFileRefused,
			says: "client-certificate"},
		"a key file": {change: func(c *config) { c.AuthInfos["u"].ClientKey = "/" + secret }, reason: v1alpha1.ReasonFileRefused,
			says: "client-key"},
		"an authority file": {change: func(c *config) { c.Clusters["c"].CertificateAuthority = "/" + secret },
			reason: v1alpha1.ReasonFileRefused, says: "certificate-authority"},
		"no context": {change: func(c *config) { c.CurrentContext = "" }, reason: v1alpha1.ReasonInvalidKubeconfig,
			says: "no current-context"},
		"an unknown context": {change: func(c *config) { c.CurrentContext = secret }, reason: v1alpha1.ReasonInvalidKubeconfig,
			says: "no context"},
		"an unknown cluster": {change: func(c *config) { c.Contexts["x"].Cluster = secret }, reason: v1alpha1.ReasonInvalidKubeconfig,
			says: "no cluster"},
		"an unknown user": {change: func(c *config) { c.Contexts["x"].AuthInfo = secret }, reason: v1alpha1.ReasonInvalidKubeconfig,
			says: "no user"},
		"no server": {change: func(c *config) { c.Clusters["c"].Server = "" }, reason: v1alpha1.ReasonInvalidKubeconfig,
			says: "no server"},
		"no scheme": {change: func(c *config) { c.Clusters["c"].Server = "s3cr3t:6443" }, reason: v1alpha1.ReasonInvalidKubeconfig,
			says: "no server"},
		"plain http": {change: func(c *config) { c.Clusters["c"].Server = "http://s3cr3t" }, reason: v1alpha1.ReasonInvalidKubeconfig,
			says: "without https"},
		"a password in it": {change: func(c *config) { c.Clusters["c"].Server = "https://u:s3cr3t@a" },
			reason: v1alpha1.ReasonInvalidKubeconfig, says: "within the address"},
		"no verification": {change: func(c *config) { c.Clusters["c"].InsecureSkipTLSVerify = true },
			reason: v1alpha1.ReasonInvalidKubeconfig, says: "insecure-skip-tls-verify"},
		"somebody else": {change: func(c *config) { c.AuthInfos["u"].Impersonate = secret }, reason: v1alpha1.ReasonInvalidKubeconfig,
			says: "(as)"},
		"a group of others": {change: func(c *config) { c.AuthInfos["u"].ImpersonateGroups = []string{secret} },
			reason: v1alpha1.ReasonInvalidKubeconfig, says: "(as)"},
		"no credentials": {change: func(c *config) { c.AuthInfos["u"].Token = "" }, reason: v1alpha1.ReasonInvalidKubeconfig,
			says: "no credentials"},
		"a wrong authority": {change: func(c *config) { c.Clusters["c"].CertificateAuthorityData = []byte(secret) },
			reason: v1alpha1.ReasonInvalidKubeconfig, says: "certificate-authority-data"},
		"a wrong certificate": {change: func(c *config) { c.AuthInfos["u"].ClientCertificateData = []byte(secret) },
			reason: v1alpha1.ReasonInvalidKubeconfig, says: "client-certificate-data"},
	} {
		t.Run(name, func(t *testing.T) {
			config, expires, err := ReadKubeconfig(kubeconfig(t, "https://a.example.com", secret, test.change), noon)
			if test.reason == "" {
				if err != nil || config.Host != "https://a.example.com" || !expires.Equal(test.expires) {
					t.Errorf("%+v %s %v", config, expires, err)
				}
				return
			}
			checkProblem(t, err, test.reason, test.says)
		})
	}
	for name, data := range map[string]string{"empty": "", "not YAML": "{s3cr3t", "a wrong type": "users: s3cr3t",
		"another kind": "kind: s3cr3t"} {
		t.Run(name, func(t *testing.T) {
			_, _, err := ReadKubeconfig([]byte(data), noon)
			checkProblem(t, err, v1alpha1.ReasonInvalidKubeconfig, "the kubeconfig")
		})
	}
}

// checkProblem wants an error that says what is wrong and what to do, and nothing of the kubeconfig.
func checkProblem(t *testing.T, err error, reason, says string) {
	t.Helper()
	var problem *Problem
	switch {
	case !errors.As(err, &problem):
		t.Errorf("%v is not a Problem", err)
	case problem.Reason != reason || !strings.Contains(problem.Message, says) || !strings.Contains(problem.Message, "evenkeel cluster join"):
		t.Errorf("%+v, want %s with %q and a remedy", problem, reason, says)
	case strings.Contains(problem.Message, secret):
		t.Errorf("%+v shows what is secret", problem)
	}
}

// Whatever a Secret holds: it is refused with a text that is known beforehand, or accepted as
// something that runs no command and reads no file.
func FuzzReadKubeconfig(f *testing.F) {
	f.Add([]byte("{}"))
	f.Add([]byte("apiVersion: v1\nkind: Config\ncurrent-context: x\ncontexts: [{name: x, context: {cluster: c, user: " +
		"u}}]\nclusters: [{name: c, cluster: {server: https://a}}]\nusers: [{name: u, user: {token: s3cr3t}}]\n"))
	f.Add([]byte("current-context: x\ncontexts: [{name: x, context: {cluster: c, user: u}}]\nclusters: [{name: c, cluster: " +
		"{server: https://a}}]\nusers: [{name: u, user: {exec: {command: s3cr3t}}}]\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		config, _, err := ReadKubeconfig(data, noon)
		if err != nil {
			var problem *Problem
			if !errors.As(err, &problem) || len(problem.Message) > 300 || problem.Reason == "" {
				t.Fatalf("%v", err)
			}
			return
		}
		if config.ExecProvider != nil || config.AuthProvider != nil || config.BearerTokenFile != "" || config.CAFile != "" ||
			config.CertFile != "" || config.KeyFile != "" {
			t.Fatalf("%+v", config)
		}
		if _, err := clientcmd.Load(data); err != nil {
			t.Fatal("accepted without being a kubeconfig")
		}
	})
}
