package process

import (
	"fmt"
	"net"
	"os"
	"strconv"
	"sync/atomic"
	"testing"
)

// Ports are looked for in a range that systems do not take the ports of outgoing
// connections from: one of those might be taken before the program listens on it.
// Each test process begins elsewhere, and tries no port twice before all others.
const (
	lowestPort = 10000
	portCount  = 22000
	apart      = 97
	// A port that is taken is no wonder; so many in a row are.
	attempts = 100
)

var portsTried atomic.Int64

// FreePorts finds ports of loopback on which nobody listens now.
func FreePorts(n int) ([]int, error) {
	var listeners []net.Listener
	// All stay taken until the last is found, so that they differ.
	defer func() {
		for _, l := range listeners {
			_ = l.Close()
		}
	}()
	ports := make([]int, 0, n)
	for range n {
		l, err := listenAnywhere()
		if err != nil {
			return nil, fmt.Errorf("finding a free port: %w", err)
		}
		listeners = append(listeners, l)
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports, nil
}

func listenAnywhere() (l net.Listener, err error) {
	for range attempts {
		port := lowestPort + (int64(os.Getpid())*apart+portsTried.Add(1))%portCount
		if l, err = net.Listen("tcp", net.JoinHostPort(Loopback, fmt.Sprint(port))); err == nil {
			return l, nil
		}
	}
	return nil, err
}

// FreeAddress finds an address of loopback on which nobody listens now.
func FreeAddress(t testing.TB) string {
	t.Helper()
	ports, err := FreePorts(1)
	if err != nil {
		t.Fatal(err)
	}
	return net.JoinHostPort(Loopback, strconv.Itoa(ports[0]))
}
