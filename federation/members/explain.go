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
	problem, _ := errors.AsType[*Problem](err)
	text, _ := errors.AsType[fixed](err)
	dial, _ := errors.AsType[*net.OpError](err)
	var status apierrors.APIStatus
	switch {
	case problem != nil:
		return problem.Message
	case text != "":
		return text.Error()
	case dial != nil && dial.Op == "proxyconnect":
		return "the proxy in the kubeconfig (proxy-url) cannot be reached"
	case errors.As(err, &status):
		s := status.Status()
		return fmt.Sprintf("the API server answered %d %s", s.Code, cmp.Or(string(s.Reason), http.StatusText(int(s.Code))))
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
	case is[*net.DNSError](err):
		return "the name of the API server does not resolve"
	case is[x509.UnknownAuthorityError](err):
		return "the certificate of the API server is not signed by the authority in the kubeconfig"
	case is[x509.HostnameError](err):
		return "the certificate of the API server is not for its address: join with an address that it is for (--server), or " +
			"give the kubeconfig a tls-server-name"
	case is[x509.CertificateInvalidError](err):
		return "the certificate of the API server is not valid"
	case is[tls.RecordHeaderError](err):
		return "what listens at the address of the API server does not speak TLS"
	}
	return "the connection to the API server failed"
}

func is[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}

func timedOut(err error) bool {
	network, ok := errors.AsType[net.Error](err)
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded) || ok && network.Timeout()
}
