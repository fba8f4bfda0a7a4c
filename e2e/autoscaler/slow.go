package autoscaler

import (
	"net"
	"sync"
	"testing"
	"time"

	"k8s.io/utils/clock"
)

// NewSlowRoad passes connections on to a server, and each message of a client later by a delay. It
// does not look into them. It ends with the test.
func NewSlowRoad(t testing.TB, server string, delay time.Duration) (address string) {
	t.Helper()
	return between(t, []string{server},
		func(server, client net.Conn) { carry(server, client, delay) },
		func(client, server net.Conn) { carry(client, server, 0) })
}

// message is what was read at once.
type message struct {
	text []byte
	due  time.Time
}

// carry copies messages from one connection to another, each so much later, until either ends.
func carry(to, from net.Conn, delay time.Duration) {
	messages := make(chan message, 1024)
	var writing sync.WaitGroup
	writing.Go(func() {
		defer to.Close()
		for m := range messages {
			<-clock.RealClock{}.After(m.due.Sub(clock.RealClock{}.Now()))
			if _, err := to.Write(m.text); err != nil {
				_ = from.Close() // so that the reader ends
			}
		}
	})
	for {
		text := make([]byte, 64<<10)
		n, err := from.Read(text)
		if n > 0 {
			messages <- message{text[:n], clock.RealClock{}.Now().Add(delay)}
		}
		if err != nil {
			break
		}
	}
	close(messages)
	writing.Wait()
}
