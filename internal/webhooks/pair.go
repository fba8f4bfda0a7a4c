package webhooks

import (
	"bytes"
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/util/cert"

	"github.com/evenkeel/evenkeel/internal/serving"
)

// The keys of the Secret. The first three are those of any Secret with a certificate; the authorities
// are those of the current, the next and former certificates.
const (
	keyCert, keyKey, keyAuthorities = v1.TLSCertKey, v1.TLSPrivateKeyKey, "ca.crt"
	keyNextCert, keyNextKey         = "next.crt", "next.key"
)

// annotationRotated is when the current certificate replaced another one.
const annotationRotated = "evenkeel.dev/rotated-at"

// backdated is how long before they are made certificates become valid.
const backdated = 24 * time.Hour

// maxPrevious is how many former authorities are trusted, however often a rotation is forced.
const maxPrevious = 8

// pair is a serving certificate and its authority.
type pair struct {
	serving.Pair
	tls       *tls.Certificate
	authority *x509.Certificate
}

func newPair(now time.Time, lifetime time.Duration, hosts []string) (*pair, error) {
	authority, err := serving.NewAuthority(now.Add(-backdated), lifetime+backdated)
	if err != nil {
		return nil, err
	}
	made, err := authority.Server(hosts...)
	if err != nil {
		return nil, err
	}
	trusted, err := cert.ParseCertsPEM(authority.Cert)
	if err != nil {
		return nil, err
	}
	return parsePair(made, trusted)
}

// parsePair reads a certificate whose authority is one of the given ones.
func parsePair(text serving.Pair, authorities []*x509.Certificate) (*pair, error) {
	read, err := tls.X509KeyPair(text.Cert, text.Key)
	if err != nil {
		return nil, err
	}
	for _, authority := range authorities {
		if read.Leaf.CheckSignatureFrom(authority) == nil {
			return &pair{text, &read, authority}, nil
		}
	}
	return nil, errors.New("no authority has signed the certificate")
}

// expires is when the first of the two certificates does.
func (p *pair) expires() time.Time {
	if p.authority.NotAfter.Before(p.tls.Leaf.NotAfter) {
		return p.authority.NotAfter
	}
	return p.tls.Leaf.NotAfter
}

// begun reports whether both certificates are valid already.
func (p *pair) begun(now time.Time) bool {
	return !now.Before(p.tls.Leaf.NotBefore) && !now.Before(p.authority.NotBefore)
}

// lacks returns the hosts that the certificate is not for.
func (p *pair) lacks(hosts []string) (lacking []string) {
	for _, host := range hosts {
		if p.tls.Leaf.VerifyHostname(host) != nil {
			lacking = append(lacking, host)
		}
	}
	return lacking
}

// hosts are those that the certificate is for.
func (p *pair) hosts() []string {
	hosts := slices.Clone(p.tls.Leaf.DNSNames)
	for _, ip := range p.tls.Leaf.IPAddresses {
		hosts = append(hosts, ip.String())
	}
	return hosts
}

// state is what the Secret says.
type state struct {
	current *pair               // what all replicas serve
	next    *pair               // what they will serve, or nil
	former  []*x509.Certificate // authorities of what was served before, the oldest first
	rotated time.Time           // when the current pair replaced another one; zero for never
}

// parseState reads the Secret. A next pair that is not usable is as none.
func parseState(secret *v1.Secret) (*state, error) {
	authorities, err := cert.ParseCertsPEM(secret.Data[keyAuthorities])
	if err != nil {
		return nil, err
	}
	s := &state{}
	if s.current, err = parsePair(serving.Pair{Cert: secret.Data[keyCert], Key: secret.Data[keyKey]}, authorities); err != nil {
		return nil, err
	}
	s.next, _ = parsePair(serving.Pair{Cert: secret.Data[keyNextCert], Key: secret.Data[keyNextKey]}, authorities)
	s.former = slices.DeleteFunc(authorities, func(a *x509.Certificate) bool {
		return a.Equal(s.current.authority) || s.next != nil && a.Equal(s.next.authority)
	})
	s.former = newest(s.former)
	s.rotated, _ = time.Parse(time.RFC3339, secret.Annotations[annotationRotated]) // zero: the authorities before go now
	return s, nil
}

// newest are the authorities that were made last.
func newest(authorities []*x509.Certificate) []*x509.Certificate {
	return authorities[max(0, len(authorities)-maxPrevious):]
}

// bundle is the authorities that the API server must trust. Their order does not depend on which is
// current, so that a step that only changes this changes no configuration.
func (s *state) bundle() []byte {
	trusted := append(slices.Clone(s.former), s.current.authority)
	if s.next != nil {
		trusted = append(trusted, s.next.authority)
	}
	slices.SortFunc(trusted, func(a, b *x509.Certificate) int {
		return cmp.Or(a.NotBefore.Compare(b.NotBefore), bytes.Compare(a.Raw, b.Raw))
	})
	text, _ := cert.EncodeCertificates(trusted...) // a buffer takes all
	return text
}

// store writes the state into the Secret.
func (s *state) store(secret *v1.Secret) {
	secret.Data = map[string][]byte{keyCert: s.current.Cert, keyKey: s.current.Key, keyAuthorities: s.bundle()}
	if s.next != nil {
		secret.Data[keyNextCert], secret.Data[keyNextKey] = s.next.Cert, s.next.Key
	}
	if secret.Annotations == nil {
		secret.Annotations = map[string]string{}
	}
	delete(secret.Annotations, annotationRotated)
	if !s.rotated.IsZero() {
		secret.Annotations[annotationRotated] = s.rotated.UTC().Format(time.RFC3339)
	}
}
