package members

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"syscall"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// ErrNotAnswering is returned for calls to a cluster that did not answer before, without making
// them.
var ErrNotAnswering error = fixed("the cluster does not answer")

// What answers or does not.
const (
	errWebPage = fixed("a web page answers at the address, not an API server")
	errProxy   = fixed("the proxy in the kubeconfig (proxy-url) refuses to connect to the API server")
)

// fixed is an error whose text is known beforehand, so that it can be shown.
type fixed string

func (f fixed) Error() string { return string(f) }

// Explain says in fixed words why a call to a cluster failed. The text of the error itself may hold
// the address of the cluster, which is part of its Secret, or whatever a server answered.
func Explain(err error) string {
	var problem *Problem
	var text fixed
	var status apierrors.APIStatus
	var lookup *net.DNSError
	var dial *net.OpError
	var authority x509.UnknownAuthorityError
	var hostname x509.HostnameError
	var certificate x509.CertificateInvalidError
	var record tls.RecordHeaderError
	var verification *tls.CertificateVerificationError
	switch {
	case errors.As(err, &problem):
		return problem.Message
	case errors.As(err, &text):
		return text.Error()
	case errors.As(err, &dial) && dial.Op == "proxyconnect":
		return "the proxy in the kubeconfig (proxy-url) cannot be reached"
	case errors.As(err, &status):
		return explainStatus(status)
	case errors.Is(err, context.Canceled):
		return "the call was cancelled"
	case timedOut(err):
		return "the API server did not answer in time"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "nothing listens at the address of the API server (connection refused)"
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return "the API server closed the connection"
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return "there is no route to the API server"
	case errors.As(err, &lookup):
		return "the name of the API server does not resolve"
	case errors.As(err, &authority), errors.As(err, &verification) && errors.As(verification.Err, &authority):
		return "the certificate of the API server is not signed by the authority in the kubeconfig"
	case errors.As(err, &hostname):
		return "the certificate of the API server is not for its address: join with an address that it is for (--server), or give the kubeconfig a tls-server-name"
	case errors.As(err, &certificate):
		return "the certificate of the API server is not valid"
	case errors.As(err, &record):
		return "what listens at the address of the API server does not speak TLS"
	}
	return "the connection to the API server failed"
}

func timedOut(err error) bool {
	var network net.Error
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded) || errors.As(err, &network) && network.Timeout()
}

func explainStatus(status apierrors.APIStatus) string {
	s := status.Status()
	return fmt.Sprintf("the API server answered %d %s", s.Code, cmp.Or(string(s.Reason), http.StatusText(int(s.Code))))
}
