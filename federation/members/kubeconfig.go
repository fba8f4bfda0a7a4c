package members

import (
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/url"
	"strings"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

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

func invalid(what string) *Problem {
	return &Problem{v1alpha1.ReasonInvalidKubeconfig, "the kubeconfig " + what + ": " + remedy}
}

// ReadKubeconfig returns how the current context of a kubeconfig reaches its cluster, and when its
// credentials expire; zero if it does not say. Every error is a *Problem: a kubeconfig must hold
// its credentials itself, so one that names files is refused, and one that names a command or a
// plugin too, which are never run. The time decides whether credentials have expired.
func ReadKubeconfig(data []byte, now time.Time) (*rest.Config, time.Time, error) {
	// The errors of the parser quote what they cannot parse.
	config, err := clientcmd.Load(data)
	if err != nil {
		return nil, time.Time{}, invalid("does not parse")
	}
	cluster, user, problem := current(config)
	if problem != nil {
		return nil, time.Time{}, problem
	}
	if problem := unusable(cluster, user); problem != nil {
		return nil, time.Time{}, problem
	}
	expires, problem := expiry(cluster, user)
	if problem == nil && !expires.IsZero() && !now.Before(expires) {
		problem = &Problem{v1alpha1.ReasonExpired, fmt.Sprintf("the credentials expired on %s: %s", expires.UTC().Format(time.RFC3339), remedy)}
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

// current returns what the current context refers to.
func current(config *clientcmdapi.Config) (*clientcmdapi.Cluster, *clientcmdapi.AuthInfo, *Problem) {
	if config.CurrentContext == "" {
		return nil, nil, invalid("has no current-context")
	}
	context := config.Contexts[config.CurrentContext]
	if context == nil {
		return nil, nil, invalid("has no context of the name in its current-context")
	}
	cluster, user := config.Clusters[context.Cluster], config.AuthInfos[context.AuthInfo]
	switch {
	case cluster == nil:
		return nil, nil, invalid("has no cluster of the name in its current context")
	case user == nil:
		return nil, nil, invalid("has no user of the name in its current context")
	}
	return cluster, user, nil
}

// unusable says why credentials are refused that are not all in the kubeconfig, or that would be sent to
// anyone.
func unusable(cluster *clientcmdapi.Cluster, user *clientcmdapi.AuthInfo) *Problem {
	plugin := func(what string) *Problem {
		return &Problem{v1alpha1.ReasonPluginRefused, "the kubeconfig asks to run " + what + ", which is never done: " + remedy + ", which needs none"}
	}
	switch {
	case user.Exec != nil:
		return plugin("a command to obtain credentials (exec)")
	case user.AuthProvider != nil:
		return plugin("a plugin to obtain credentials (auth-provider)")
	}
	for field, path := range map[string]string{
		"certificate-authority": cluster.CertificateAuthority, "client-certificate": user.ClientCertificate,
		"client-key": user.ClientKey, "tokenFile": user.TokenFile,
	} {
		if path != "" {
			return &Problem{v1alpha1.ReasonFileRefused, fmt.Sprintf("the kubeconfig names a file in %s, which is never read: write the content into it, as kubectl config view --raw --flatten does, or %s", field, remedy)}
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
	var earliest time.Time
	add := func(t time.Time) {
		if !t.IsZero() && (earliest.IsZero() || t.Before(earliest)) {
			earliest = t
		}
	}
	if ca := cluster.CertificateAuthorityData; len(ca) > 0 && !x509.NewCertPool().AppendCertsFromPEM(ca) {
		return earliest, invalid("has no certificate in certificate-authority-data")
	}
	if len(user.ClientCertificateData) > 0 {
		block, _ := pem.Decode(user.ClientCertificateData)
		if block == nil {
			return earliest, invalid("has no certificate in client-certificate-data")
		}
		certificate, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return earliest, invalid("has a client certificate that does not parse")
		}
		add(certificate.NotAfter)
	}
	_, expires := tokenTimes(user.Token)
	add(expires)
	return earliest, nil
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
	if claims.Issued > 0 {
		issued = time.Unix(claims.Issued, 0)
	}
	if claims.Expires > 0 {
		expires = time.Unix(claims.Expires, 0)
	}
	return issued, expires
}
