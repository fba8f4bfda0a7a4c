package controlplane

import (
	"sync"
	"time"

	"k8s.io/utils/clock"

	"github.com/evenkeel/evenkeel/e2e/process"
	"github.com/evenkeel/evenkeel/internal/serving"
)

// A certificate is what a server shows, with its key and the authority that signed it, in PEM.
type certificate struct {
	serving.Pair
	authority []byte
}

// shared is the certificate of all servers of this process. It is elliptic: the RSA keys that client-go makes, and handshakes with
// them, took a twentieth of the processor time of API servers.
var shared = sync.OnceValues(func() (certificate, error) {
	authority, err := serving.NewAuthority(clock.RealClock{}.Now(), 24*time.Hour)
	if err != nil {
		return certificate{}, err
	}
	pair, err := authority.Server(process.Loopback, "localhost")
	return certificate{pair, authority.Cert}, err
})
