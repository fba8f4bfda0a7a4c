package members

import (
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/util/cert"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
)

// Problem is why a cluster cannot be used, and what to do about it. Its text holds nothing of a
// kubeconfig, neither credentials nor addresses, so that it can be shown to anyone.
type Problem struct {
	// Reason is one of the reasons of the condition CredentialsValid.
	Reason  string
	Message string
}

func (p *Problem) Error() string { return p.Message }

// remedy is the simplest way out of most problems of credentials.
const remedy = "make new credentials with evenkeel cluster join"

func problemOf(reason, format string, args ...any) *Problem {
	return &Problem{reason, fmt.Sprintf(format, args...)}
}

func invalid(what string) *Problem {
	return problemOf(v1alpha1.ReasonInvalidKubeconfig, "the kubeconfig %s: %s", what, remedy)
}

// ReadKubeconfig returns how the current context of a kubeconfig reaches its cluster, and when its
// credentials expire; zero if it does not say. Every error is a *Problem: a kubeconfig must hold
// its credentials itself, so one that names files is refused, and one that names a command or a
// plugin too, which are never run. The time decides whether credentials have expired.
func ReadKubeconfig(data []byte, now time.Time) (*rest.Config, time.Time, error) {
	config, err := clientcmd.Load(data)
	if err != nil { // which quotes what does not parse
		return nil, time.Time{}, invalid("does not parse")
	}
	cluster, user, problem := current(config)
	if problem == nil {
		problem = unusable(cluster, user)
	}
	var expires time.Time
	if problem == nil {
		expires, problem = expiry(cluster, user)
	}
	if problem == nil && !expires.IsZero() && !now.Before(expires) {
		problem = problemOf(v1alpha1.ReasonExpired, "the credentials expired on %s: %s", expires.UTC().Format(time.RFC3339), remedy)
	}
	if problem != nil {
		return nil, time.Time{}, problem
	}
	out, err := clientcmd.NewDefaultClientConfig(*config, nil).ClientConfig()
	if err != nil {
		return nil, time.Time{}, invalid("cannot be used")
	}
	return out, expires, nil
}

// Kubeconfig is one that reaches a cluster by a token.
func Kubeconfig(name string, cluster *clientcmdapi.Cluster, token string) ([]byte, error) {
	const user = "evenkeel"
	return clientcmd.Write(clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{name: cluster},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{user: {Token: token}},
		Contexts:       map[string]*clientcmdapi.Context{name: {Cluster: name, AuthInfo: user}},
		CurrentContext: name,
	})
}

// current returns what the current context refers to.
func current(config *clientcmdapi.Config) (*clientcmdapi.Cluster, *clientcmdapi.AuthInfo, *Problem) {
	context := config.Contexts[config.CurrentContext]
	switch {
	case config.CurrentContext == "":
		return nil, nil, invalid("has no current-context")
	case context == nil:
		return nil, nil, invalid("has no context of the name in its current-context")
	case config.Clusters[context.Cluster] == nil:
		return nil, nil, invalid("has no cluster of the name in its current context")
	case config.AuthInfos[context.AuthInfo] == nil:
		return nil, nil, invalid("has no user of the name in its current context")
	}
	return config.Clusters[context.Cluster], config.AuthInfos[context.AuthInfo], nil
}

// unusable says why credentials are refused that are not all in the kubeconfig, or that would be sent to
// anyone.
func unusable(cluster *clientcmdapi.Cluster, user *clientcmdapi.AuthInfo) *Problem {
	const plugin = "the kubeconfig asks to run %s, which is never done: %s, which needs none"
	switch {
	case user.Exec != nil:
		return problemOf(v1alpha1.ReasonPluginRefused, plugin, "a command to obtain credentials (exec)", remedy)
	case user.AuthProvider != nil:
		return problemOf(v1alpha1.ReasonPluginRefused, plugin, "a plugin to obtain credentials (auth-provider)", remedy)
	}
	for field, path := range map[string]string{
		"certificate-authority": cluster.CertificateAuthority, "client-certificate": user.ClientCertificate,
		"client-key": user.ClientKey, "tokenFile": user.TokenFile,
	} {
		if path != "" {
			return problemOf(v1alpha1.ReasonFileRefused,
				"the kubeconfig names a file in %s, which is never read: write the content into it, as kubectl config view --raw --flatten does, or %s",
				field, remedy)
		}
	}
	server, err := url.Parse(cluster.Server)
	switch {
	case err != nil || server.Host == "":
		return invalid("has no server with the form https://host:port")
	case server.User != nil:
		return invalid("has credentials within the address of its server")
	case server.Scheme != "https":
		return invalid("has a server without https")
	case cluster.InsecureSkipTLSVerify:
		return invalid("has insecure-skip-tls-verify, with which anyone could take the credentials and answer for the cluster")
	case user.Impersonate != "" || user.ImpersonateUID != "" || len(user.ImpersonateGroups)+len(user.ImpersonateUserExtra) > 0:
		return invalid("acts as somebody else (as), whose rights are not those of its credentials")
	case user.Token == "" && user.Username == "" && len(user.ClientCertificateData) == 0:
		return invalid("has no credentials: no token and no client certificate")
	}
	return nil
}

// expiry is when the credentials expire: the earlier of client certificate and token.
func expiry(cluster *clientcmdapi.Cluster, user *clientcmdapi.AuthInfo) (time.Time, *Problem) {
	if ca := cluster.CertificateAuthorityData; len(ca) > 0 && !x509.NewCertPool().AppendCertsFromPEM(ca) {
		return time.Time{}, invalid("has no certificate in certificate-authority-data")
	}
	_, expires := tokenTimes(user.Token)
	if len(user.ClientCertificateData) > 0 {
		certificates, err := cert.ParseCertsPEM(user.ClientCertificateData)
		if err != nil {
			return time.Time{}, invalid("has no certificate in client-certificate-data")
		}
		if end := certificates[0].NotAfter; expires.IsZero() || end.Before(expires) {
			expires = end
		}
	}
	return expires, nil
}

// tokenTimes are when a service account token was issued and when it expires; zero if it does not say. The
// signature is for the API server to check.
func tokenTimes(token string) (issued, expires time.Time) {
	var claims struct {
		Issued  int64 `json:"iat"` // in seconds since 1970, as is the other
		Expires int64 `json:"exp"`
	}
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return issued, expires
	}
	if payload, err := base64.RawURLEncoding.DecodeString(parts[1]); err != nil || json.Unmarshal(payload, &claims) != nil {
		return issued, expires
	}
	at := func(seconds int64) (t time.Time) {
		if seconds > 0 {
			t = time.Unix(seconds, 0)
		}
		return t
	}
	return at(claims.Issued), at(claims.Expires)
}
