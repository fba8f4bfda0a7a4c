package process

import (
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"testing"
)

// Ports are looked for in a range that systems do not take the ports of outgoing
// connections from: one of those might be taken before the program listens on it.
const (
	lowestPort  = 10000
	highestPort = 32000
	// A port that is taken is bad luck; so many that are taken are none.
	attempts = 100
)

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
		port := lowestPort + rand.IntN(highestPort-lowestPort)
		if l, err = net.Listen("tcp", net.JoinHostPort(Loopback, strconv.Itoa(port))); err == nil {
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
