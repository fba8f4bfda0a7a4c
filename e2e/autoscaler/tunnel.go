package autoscaler

import (
	"encoding/binary"
	"io"
	"net"
	"sync"
	"testing"

	"github.com/evenkeel/evenkeel/e2e/process"
)

// Parts of TLS that are not encrypted: each record begins with its type and length.
const (
	recordHeader    = 5
	applicationData = 23
	// long is what no handshake and no setting of a connection comes to, and any question of an
	// expander.
	long = 1000
)

// NewTunnel passes connections under TLS on to a server, without a look into what is encrypted. It
// calls first before it passes on the first long message of a client. It ends with the test.
func NewTunnel(t testing.TB, server string, first func()) (address string) {
	t.Helper()
	var once sync.Once
	return between(t, []string{server},
		func(server, client net.Conn) { pass(server, client, func() { once.Do(first) }) },
		func(client, server net.Conn) { pass(client, server, func() {}) })
}

// NewService passes connections on to the first of some servers that accepts them, as a Service does. It ends with the
// test.
func NewService(t testing.TB, servers ...string) (address string) {
	t.Helper()
	forward := func(to, from net.Conn) { carry(to, from, 0) }
	return between(t, servers, forward, forward)
}

// between accepts connections for the first of some servers that accepts them, and has what either side says carried to
// the other.
func between(t testing.TB, servers []string, there, back func(to, from net.Conn)) (address string) {
	t.Helper()
	listener, err := net.Listen("tcp", net.JoinHostPort(process.Loopback, "0"))
	if err != nil {
		t.Fatal(err)
	}
	var open sync.WaitGroup
	var mutex sync.Mutex
	var conns []net.Conn
	open.Go(func() {
		for {
			near, err := listener.Accept()
			if err != nil {
				return // it was closed
			}
			far, err := dialAny(servers)
			if err != nil {
				_ = near.Close()
				continue
			}
			mutex.Lock()
			conns = append(conns, near, far)
			mutex.Unlock()
			open.Go(func() { back(near, far) })
			open.Go(func() { there(far, near) })
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		mutex.Lock()
		for _, c := range conns {
			_ = c.Close()
		}
		mutex.Unlock()
		open.Wait()
	})
	return listener.Addr().String()
}

// dialAny connects to the first server that accepts it.
func dialAny(servers []string) (conn net.Conn, err error) {
	for _, server := range servers {
		if conn, err = net.Dial("tcp", server); err == nil {
			break
		}
	}
	return conn, err
}

// pass copies records from one connection to another until either ends.
func pass(to, from net.Conn, beforeLong func()) {
	defer to.Close()
	header := make([]byte, recordHeader)
	for {
		if _, err := io.ReadFull(from, header); err != nil {
			return
		}
		length := binary.BigEndian.Uint16(header[3:])
		if header[0] == applicationData && length > long {
			beforeLong()
		}
		if _, err := to.Write(header); err != nil {
			return
		}
		if _, err := io.CopyN(to, from, int64(length)); err != nil {
			return
		}
	}
}
