package serving

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// ReloadInterval is the minimum interval between two readings of certificate files.
const ReloadInterval = 10 * time.Second

// ownLifetime is the lifetime of a certificate that a server makes for itself. It is renewed after
// half of that.
const ownLifetime = 365 * 24 * time.Hour

// Files names certificate files in PEM. The zero value means no TLS.
type Files struct {
	// Cert and Key are the own certificate. A server needs them; a client without them presents
	// none.
	Cert, Key string
	// CACert verifies the other side. A server with it requires a client certificate; a client
	// without it uses the system's authorities.
	CACert string
}

// enabled reports whether any file is named.
func (f Files) enabled() bool { return f != Files{} }

// Certificates are files and what was last read from them, or a certificate that
// is made here or by the caller.
type Certificates struct {
	files Files
	own   bool                    // made here: there are no files
	given func() *tls.Certificate // asked for the own certificate instead of the files, if not nil
	clock clock.PassiveClock

	mu      sync.Mutex
	read    time.Time
	texts   [3][]byte // of cert, key, CA cert, as last used
	pair    *tls.Certificate
	pool    *x509.CertPool
	problem error // of the last reading
}

// LoadCertificates reads the files. It fails if one is missing or not usable, or
// if the certificate is not valid now.
func LoadCertificates(files Files, c clock.PassiveClock) (*Certificates, error) {
	if (files.Cert == "") != (files.Key == "") {
		return nil, errors.New("a certificate and its key belong together: one of the two files is not named")
	}
	loaded := &Certificates{files: files, clock: c, read: c.Now()}
	if err := loaded.load(); err != nil {
		return nil, err
	}
	if err := loaded.validity(); err != nil {
		return nil, err
	}
	return loaded, nil
}

// newOwn makes a self-signed certificate, and renews it.
func newOwn(c clock.PassiveClock) (*Certificates, error) {
	made := &Certificates{own: true, clock: c, read: c.Now()}
	return made, made.load()
}

// Problem returns why the files could not be used when they were last read, or why the certificate
// in use is not valid now; nil if there is no problem, or if c is nil.
func (c *Certificates) Problem() error {
	if c == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.refresh()
	return errors.Join(c.problem, c.validity())
}

// Expiry returns when the certificate in use expires; zero for none.
func (c *Certificates) Expiry() time.Time {
	if pair, _ := c.current(); pair != nil {
		return pair.Leaf.NotAfter
	}
	return time.Time{}
}

// current is what to use for a handshake.
func (c *Certificates) current() (*tls.Certificate, *x509.CertPool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.refresh()
	return c.pair, c.pool
}

func (c *Certificates) refresh() {
	if c.given != nil {
		c.pair = c.given()
	}
	if now := c.clock.Now(); now.Sub(c.read) >= ReloadInterval {
		c.read = now
		c.problem = c.load()
	}
}

// load uses the files if they are good, and changes nothing otherwise. Contents
// are compared, not times: a copy may keep its time.
func (c *Certificates) load() error {
	if c.own {
		return c.renew()
	}
	var texts [3][]byte
	for i, name := range [...]string{c.files.Cert, c.files.Key, c.files.CACert} {
		if name == "" {
			continue
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return fmt.Errorf("certificate: %w", err)
		}
		texts[i] = text
	}
	complete := (c.pair != nil || c.files.Cert == "") && (c.pool != nil || c.files.CACert == "")
	if complete && slices.EqualFunc(texts[:], c.texts[:], bytes.Equal) {
		return nil
	}
	pair := c.pair
	if c.files.Cert != "" {
		parsed, err := tls.X509KeyPair(texts[0], texts[1])
		if err != nil {
			return fmt.Errorf("certificate %s with key %s: %w", c.files.Cert, c.files.Key, err)
		}
		pair = &parsed
	}
	var pool *x509.CertPool
	if c.files.CACert != "" {
		pool = x509.NewCertPool()
		if !pool.AppendCertsFromPEM(texts[2]) {
			return fmt.Errorf("CA certificate %s: no certificate in it", c.files.CACert)
		}
	}
	c.texts, c.pair, c.pool = texts, pair, pool
	return nil
}

// renew makes a certificate unless the one there is will be valid for long.
func (c *Certificates) renew() error {
	now := c.clock.Now()
	if c.pair != nil && now.Before(c.pair.Leaf.NotAfter.Add(-ownLifetime/2)) {
		return nil
	}
	hosts := []string{"localhost", "127.0.0.1", "::1"}
	if name, err := os.Hostname(); err == nil && CheckHost(name) == nil {
		hosts = append(hosts, name)
	}
	authority, err := NewAuthority(now, ownLifetime)
	if err != nil {
		return err
	}
	made, err := authority.Server(hosts...)
	if err != nil {
		return err
	}
	pair, err := tls.X509KeyPair(made.Cert, made.Key)
	if err != nil {
		return err
	}
	c.pair = &pair
	return nil
}

func (c *Certificates) validity() error {
	if c.pair == nil {
		return nil
	}
	leaf, now := c.pair.Leaf, c.clock.Now()
	switch {
	case now.After(leaf.NotAfter):
		return fmt.Errorf("certificate %s expired on %s", c.files.Cert, leaf.NotAfter.UTC().Format(time.RFC3339))
	case now.Before(leaf.NotBefore):
		return fmt.Errorf("certificate %s is not valid before %s", c.files.Cert, leaf.NotBefore.UTC().Format(time.RFC3339))
	}
	return nil
}

// server is the configuration of a listener for these protocols.
func (c *Certificates) server(protocols ...string) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		Time:       c.clock.Now,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			pair, pool := c.current()
			if pair == nil {
				return nil, errors.New("there is no certificate yet")
			}
			config := &tls.Config{
				MinVersion: tls.VersionTLS12, Time: c.clock.Now, NextProtos: protocols,
				Certificates: []tls.Certificate{*pair},
			}
			if pool != nil {
				config.ClientAuth, config.ClientCAs = tls.RequireAndVerifyClientCert, pool
			}
			return config, nil
		},
	}
}

// client is the configuration of a connection to a host. The authorities may
// change between handshakes, so the server is verified here, with the same rules.
func (c *Certificates) client(host string) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		Time:       c.clock.Now,
		ServerName: host,
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			if pair, _ := c.current(); pair != nil {
				return pair, nil
			}
			return &tls.Certificate{}, nil
		},
		InsecureSkipVerify: true, // VerifyConnection verifies
		VerifyConnection: func(state tls.ConnectionState) error {
			_, pool := c.current()
			options := x509.VerifyOptions{DNSName: host, Roots: pool, CurrentTime: c.clock.Now(), Intermediates: x509.NewCertPool()}
			for _, intermediate := range state.PeerCertificates[1:] {
				options.Intermediates.AddCert(intermediate)
			}
			_, err := state.PeerCertificates[0].Verify(options)
			return err
		},
	}
}
