package join

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/evenkeel/evenkeel/federation/members"
)

const (
	// grantedWithin is how long an API server may take to notice new rights.
	grantedWithin = 10 * time.Second
	// answeredWithin is how long an address may take to answer.
	answeredWithin = 5 * time.Second
)

// kubeconfig is what the controllers reach the member by.
func (j *joiner) kubeconfig(token string) ([]byte, error) {
	config := rest.CopyConfig(j.member.Config)
	if err := rest.LoadTLSFiles(config); err != nil {
		return nil, fmt.Errorf("reading the certificates that the kubeconfig of the member names: %w", err)
	}
	proxy, err := proxyOf(config)
	if err != nil {
		return nil, err
	}
	const user = "evenkeel"
	cluster := &clientcmdapi.Cluster{
		Server: cmp.Or(j.options.Server, config.Host), CertificateAuthorityData: config.CAData, TLSServerName: config.ServerName,
		ProxyURL: proxy,
	}
	return clientcmd.Write(clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{j.name: cluster},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{user: {Token: token}},
		Contexts:       map[string]*clientcmdapi.Context{j.name: {Cluster: j.name, AuthInfo: user}},
		CurrentContext: j.name,
	})
}

// proxyOf is the proxy that a kubeconfig names; empty if it names none. That of the environment is
// the person's own.
func proxyOf(config *rest.Config) (string, error) {
	if config.Proxy == nil {
		return "", nil
	}
	server, err := url.Parse(config.Host)
	if err != nil {
		return "", fmt.Errorf("the address of the member: %w", err)
	}
	proxy, err := config.Proxy(&http.Request{URL: server})
	if err != nil || proxy == nil {
		return "", err
	}
	return proxy.String(), nil
}

// checkServer finds out whether the API server answers at the address for the controllers, with a
// certificate for it. That the address is not reached from here is not an error.
func (j *joiner) checkServer(ctx context.Context, config *rest.Config) error {
	if j.options.Server == "" {
		return nil
	}
	config = rest.CopyConfig(config)
	config.Host, config.Timeout = j.options.Server, answeredWithin
	c, err := j.options.As(config)
	if err == nil {
		_, err = members.UIDOf(ctx, c)
	}
	switch {
	case err == nil:
		j.did("member", "address "+j.options.Server, "verified")
	case errors.As(err, new(*tls.CertificateVerificationError)):
		return fmt.Errorf("%w: at --server %s, %s", ErrDenied, j.options.Server, members.Explain(err))
	default:
		j.did("member", "address "+j.options.Server+", which does not answer from here,", "not verified")
	}
	return nil
}

// Local reports whether an address is one that only this machine reaches.
func Local(server string) bool {
	address, err := url.Parse(server)
	if err != nil {
		return false
	}
	host := address.Hostname()
	return host == "localhost" || strings.HasPrefix(host, "127.") || host == "::1" || strings.HasSuffix(host, ".localhost")
}

// verify finds out whether the controllers will be able to use the kubeconfig, and to do with it
// what they must.
func (j *joiner) verify(ctx context.Context, kubeconfig []byte) error {
	config, _, err := members.ReadKubeconfig(kubeconfig, clock.RealClock{}.Now())
	if err != nil {
		return fmt.Errorf("%w: %w", ErrDenied, err)
	}
	server := rest.CopyConfig(config)
	config.Host = j.member.Config.Host // the other address may be one that is not reached from here
	c, err := j.options.As(config)
	if err != nil {
		return fmt.Errorf("using the new credentials: %w", err)
	}
	var missing []string
	total := 0
	err = wait.PollUntilContextTimeout(ctx, 200*time.Millisecond, grantedWithin, true, func(ctx context.Context) (bool, error) {
		missing, total, err = denied(ctx, c, j.fixedNodes)
		return err == nil && len(missing) == 0, nil
	})
	switch {
	case err == nil:
		j.did("member", fmt.Sprintf("%d rights of serviceaccount/%s", total, Account), "verified")
		return j.checkServer(ctx, server)
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case len(missing) > 0:
		return fmt.Errorf("%w: the member does not allow to %s: another authorizer may have to grant it", ErrDenied, strings.Join(missing, ", to "))
	}
	_, _, err = denied(ctx, c, j.fixedNodes)
	return fmt.Errorf("%w: %w", ErrDenied, err)
}

// denied returns which of the rights that the controllers need a client does not have, and how many
// they need.
func denied(ctx context.Context, c client.Client, fixedNodes bool) (missing []string, total int, err error) {
	for _, rule := range members.Rules(fixedNodes) {
		for _, resource := range rule.Resources {
			for _, verb := range rule.Verbs {
				total++
				review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
					ResourceAttributes: &authorizationv1.ResourceAttributes{Group: rule.APIGroups[0], Resource: resource, Verb: verb},
				}}
				if len(rule.ResourceNames) > 0 {
					review.Spec.ResourceAttributes.Name = rule.ResourceNames[0]
				}
				if err := c.Create(ctx, review); err != nil {
					return nil, 0, fmt.Errorf("asking the member for rights: %w", err)
				}
				if !review.Status.Allowed {
					missing = append(missing, verb+" "+resource)
				}
			}
		}
	}
	return missing, total, nil
}
