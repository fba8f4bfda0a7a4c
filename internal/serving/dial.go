package serving

import (
	"fmt"
	"net"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"k8s.io/utils/clock"
)

// Dial makes a connection to an address, host:port, with the files of a client and further options,
// such as interceptors. With files the server must show a certificate for the host. It connects at
// the first call, and reconnects if necessary. A call that may have had an effect is not retried.
func Dial(address string, files Files, c clock.PassiveClock, options ...grpc.DialOption) (*grpc.ClientConn, error) {
	host, port, err := net.SplitHostPort(address)
	switch {
	case err != nil:
		return nil, fmt.Errorf("address %q is not host:port: %w", address, err)
	case host == "" || port == "":
		// No host would be this machine, and a certificate for any host would do.
		return nil, fmt.Errorf("address %q needs a host and a port", address)
	}
	transport := insecure.NewCredentials()
	if files.enabled() {
		loaded, err := LoadCertificates(files, c)
		if err != nil {
			return nil, err
		}
		transport = credentials.NewTLS(loaded.client(host))
	}
	// The dialer looks the host up, and unlike gRPC's own resolver says why it fails.
	return grpc.NewClient("passthrough:///"+address, append([]grpc.DialOption{
		grpc.WithTransportCredentials(transport),
		grpc.WithDisableServiceConfig(),
		grpc.WithDisableRetry(),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(MaxMessage), grpc.MaxCallSendMsgSize(MaxMessage)),
	}, options...)...)
}
