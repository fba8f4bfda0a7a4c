package serving

import (
	"cmp"
	"net"
	"slices"
	"sync"
)

const (
	// The default of the maximum number of connections that have not yet used the protocol.
	maxWaiting = 256
	// The default of the maximum number of connections that have.
	maxAdmitted = 1024
)

// gate bounds the connections of a listener. Those that send nothing, or garbage, are closed by a
// timeout; if there are too many, the oldest is closed, so a valid client can always connect.
type gate struct {
	net.Listener
	maxWaiting, maxAdmitted int // 0 means the defaults

	mu       sync.Mutex
	waiting  []net.Conn // the oldest first; may hold some that are closed
	admitted int
}

// Accept waits for the next connection and has it wait for admission.
func (g *gate) Accept() (net.Conn, error) {
	for {
		conn, err := g.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if out := g.enter(conn); out != nil {
			_ = out.Close() // it is of no use any more
			if out == conn {
				continue
			}
		}
		return conn, nil
	}
}

// enter returns the connection that must go, if any: the new one where too
// many are admitted, the oldest where too many wait.
func (g *gate) enter(conn net.Conn) net.Conn {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.admitted >= cmp.Or(g.maxAdmitted, maxAdmitted) {
		return conn
	}
	g.waiting = append(g.waiting, conn)
	if len(g.waiting) <= cmp.Or(g.maxWaiting, maxWaiting) {
		return nil
	}
	oldest := g.waiting[0]
	g.waiting = slices.Delete(g.waiting, 0, 1)
	return oldest
}

// admit must be called when the peer at an address has begun to use the protocol. It returns its
// connection, or nil if that has been closed.
func (g *gate) admit(peer net.Addr) net.Conn {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.admitted++
	address := peer.String()
	// An address may be used again: the youngest counts.
	for i, conn := range slices.Backward(g.waiting) {
		if conn.RemoteAddr().String() == address {
			g.waiting = slices.Delete(g.waiting, i, i+1)
			return conn
		}
	}
	return nil
}

// leave must be called when an admitted connection has ended.
func (g *gate) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.admitted--
}
