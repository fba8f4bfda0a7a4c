package serving

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"
)

// Pair is a certificate and its private key in PEM.
type Pair struct {
	Cert, Key []byte
}

// Authority signs certificates for servers and clients. It is intended for tests and small
// installations; a cluster may have a better one.
type Authority struct {
	Pair
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

// clockSkew is the maximum difference between the clocks of two machines.
const clockSkew = 5 * time.Minute

// NewAuthority makes an authority that is valid for the given lifetime, as are the certificates it
// signs.
func NewAuthority(now time.Time, lifetime time.Duration) (*Authority, error) {
	if lifetime <= 0 {
		return nil, errors.New("the lifetime of a certificate must be positive")
	}
	template := &x509.Certificate{
		Subject:               pkix.Name{CommonName: "evenkeel CA"},
		NotBefore:             now.Add(-clockSkew),
		NotAfter:              now.Add(lifetime),
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
		BasicConstraintsValid: true,
		IsCA:                  true,
		MaxPathLenZero:        true,
	}
	pair, key, err := sign(template, nil)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(pair.Cert)
	certificate, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return nil, err
	}
	return &Authority{Pair: pair, certificate: certificate, key: key}, nil
}

// Server signs a certificate for a server with these names and IP addresses.
func (a *Authority) Server(hosts ...string) (Pair, error) {
	if len(hosts) == 0 {
		return Pair{}, errors.New("a server certificate needs a host")
	}
	template := a.leaf(hosts[0], x509.ExtKeyUsageServerAuth)
	for _, host := range hosts {
		if err := CheckHost(host); err != nil {
			return Pair{}, err
		}
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	pair, _, err := sign(template, a)
	return pair, err
}

// CheckHost returns an error unless host is an IP address or a DNS name, whose first label may be
// *.
func CheckHost(host string) error {
	if net.ParseIP(host) != nil {
		return nil
	}
	wrong := len(validation.IsDNS1123Subdomain(strings.ToLower(strings.TrimPrefix(host, "*.")))) > 0
	if onlyNumbers := strings.Trim(host, ".0123456789") == ""; wrong || onlyNumbers {
		return fmt.Errorf("invalid host %q: must be an IP address or a DNS name such as evenkeel.kube-system.svc, without a port", host)
	}
	return nil
}

// Client signs a certificate for a client of this name.
func (a *Authority) Client(name string) (Pair, error) {
	pair, _, err := sign(a.leaf(name, x509.ExtKeyUsageClientAuth), a)
	return pair, err
}

func (a *Authority) leaf(name string, usage x509.ExtKeyUsage) *x509.Certificate {
	return &x509.Certificate{
		Subject:     pkix.Name{CommonName: name[:min(len(name), 64)]}, // the standard allows no more
		NotBefore:   a.certificate.NotBefore,
		NotAfter:    a.certificate.NotAfter,
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{usage},
	}
}

// sign makes a key and a certificate for it, signed by the authority, or by
// itself if there is none.
func sign(template *x509.Certificate, by *Authority) (Pair, *ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Pair{}, nil, fmt.Errorf("making a key: %w", err)
	}
	template.SerialNumber, err = rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return Pair{}, nil, fmt.Errorf("making a serial number: %w", err)
	}
	parent, signer := template, key
	if by != nil {
		parent, signer = by.certificate, by.key
	}
	cert, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	if err != nil {
		return Pair{}, nil, fmt.Errorf("signing a certificate: %w", err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return Pair{}, nil, fmt.Errorf("encoding a key: %w", err)
	}
	return Pair{
		Cert: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert}),
		Key:  pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}),
	}, key, nil
}
