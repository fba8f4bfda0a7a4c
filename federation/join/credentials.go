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
	return members.Kubeconfig(j.name, &clientcmdapi.Cluster{
		Server: cmp.Or(j.options.Server, config.Host), CertificateAuthorityData: config.CAData, TLSServerName: config.ServerName, ProxyURL: proxy,
	}, token)
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
	var asked int
	var problem error
	err = wait.PollUntilContextTimeout(ctx, 200*time.Millisecond, grantedWithin, true, func(ctx context.Context) (bool, error) {
		n, err := permitted(ctx, c, j.fixedNodes)
		if ctx.Err() == nil {
			asked, problem = n, err
		}
		return err == nil, nil
	})
	switch {
	case err == nil:
		j.did("member", fmt.Sprintf("%d rights of serviceaccount/%s", asked, Account), "verified")
		return j.checkServer(ctx, server)
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	return fmt.Errorf("%w: %w", ErrDenied, problem)
}

// permitted asks whether a client has all rights that the controllers need. It returns how many these are.
func permitted(ctx context.Context, c client.Client, fixedNodes bool) (asked int, _ error) {
	var missing []string
	for _, rule := range members.Rules(fixedNodes) {
		for _, resource := range rule.Resources {
			for _, verb := range rule.Verbs {
				asked++
				review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
					ResourceAttributes: &authorizationv1.ResourceAttributes{Group: rule.APIGroups[0], Resource: resource, Verb: verb},
				}}
				if len(rule.ResourceNames) > 0 {
					review.Spec.ResourceAttributes.Name = rule.ResourceNames[0]
				}
				if err := c.Create(ctx, review); err != nil {
					return 0, fmt.Errorf("asking the member for rights: %w", err)
				}
				if !review.Status.Allowed {
					missing = append(missing, verb+" "+resource)
				}
			}
		}
	}
	if len(missing) > 0 {
		return 0, fmt.Errorf("the member does not allow to %s: another authorizer may have to grant it", strings.Join(missing, ", to "))
	}
	return asked, nil
}
