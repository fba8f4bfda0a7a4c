package serving_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/evenkeel/evenkeel/internal/serving"
)

// TestAbuse sends a server what it must withstand: messages that are too large, invalid, or never end. A good call
// is answered in between all the time.
func TestAbuse(t *testing.T) {
	const method = grpc_health_v1.Health_Check_FullMethodName
	// Its time stands still: how long a message of maximum size takes depends on the machine.
	address := run(t, serving.Options{Clock: clocktesting.NewFakeClock(time.Now())}).Address()
	conn, err := serving.Dial(address, serving.Files{}, clock.RealClock{})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	well := func(t *testing.T) {
		t.Helper()
		if _, err := sendRaw(t.Context(), conn, method, nil); err != nil {
			t.Errorf("a good call: %v", err)
		}
	}
	well(t)
	t.Run("slow messages", func(t *testing.T) { slowMessages(t, address, method, func() { well(t) }) })
	t.Run("message size", func(t *testing.T) {
		if size, err := sendRaw(t.Context(), conn, method, padded(serving.MaxMessage)); err != nil {
			t.Errorf("%d bytes: %v", size, err)
		}
		if size, err := sendRaw(t.Context(), conn, method, padded(serving.MaxMessage+1)); status.Code(err) != codes.ResourceExhausted {
			t.Errorf("%d bytes: %v", size, err)
		}
		well(t)
	})
	t.Run("no message", func(t *testing.T) {
		for _, bytes := range [][]byte{{0xff}, []byte("{}"), {0x0a, 0xff, 0xff, 0xff, 0xff, 0x0f}, {0x0a, 0x05, 'a'},
			[]byte(strings.Repeat("\x0b", 1<<16))} {
			if _, err := sendRaw(t.Context(), conn, method, bytes); err == nil {
				t.Errorf("%.20x is accepted as a message", bytes)
			}
			well(t)
		}
	})
	t.Run("large header", func(t *testing.T) {
		ctx := metadata.AppendToOutgoingContext(t.Context(), "large", strings.Repeat("x", 1<<20))
		if _, err := sendRaw(ctx, conn, method, nil); err == nil {
			t.Error("a header of 1 MiB is accepted")
		}
		well(t)
	})
}

// slowMessages opens calls that announce a message of maximum size and send only a small part of
// it.
func slowMessages(t *testing.T, address, method string, well func()) {
	t.Helper()
	const clients, sent = 64, 60 << 10
	before := heap()
	for range clients {
		conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		if _, err := conn.Write(announce(method, serving.MaxMessage, sent)); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(conn, make([]byte, 9)); err != nil { // the server has begun to answer
			t.Fatal(err)
		}
	}
	slowest := time.Duration(0)
	for range 100 {
		began := time.Now()
		well()
		slowest = max(slowest, time.Since(began))
	}
	cost := (heap() - before) / clients
	t.Logf("%d clients with %d bytes of a message each cost %d bytes each; the slowest call beside them took %s", clients, sent, cost, slowest)
	if cost > 16*sent {
		t.Errorf("%d bytes for each client", cost)
	}
}

// padded is a message of exactly this size that is valid for any message type: it has one unknown
// field. The size must allow for its length of four bytes.
func padded(size int) []byte {
	const tag, head = 100<<3 | 2, 2 + 4
	message := binary.AppendUvarint(make([]byte, 0, size), tag)
	message = binary.AppendUvarint(message, uint64(size-head))
	return message[:size]
}

// announce is the beginning of an HTTP/2 connection with one call, whose message is announced with
// size bytes but contains only some of them.
func announce(method string, size, some int) []byte {
	const settings, headers, data, endHeaders = 4, 1, 0, 4
	var fields []byte
	for _, field := range [][2]string{
		{":method", "POST"}, {":scheme", "http"}, {":path", method}, {":authority", "test"},
		{"content-type", "application/grpc"}, {"te", "trailers"},
	} {
		fields = append(fields, 0, byte(len(field[0])))
		fields = append(fields, field[0]...)
		fields = append(fields, byte(len(field[1])))
		fields = append(fields, field[1]...)
	}
	out := []byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
	out = appendFrame(out, settings, 0, 0, nil)
	out = appendFrame(out, headers, endHeaders, 1, fields)
	message := append(binary.BigEndian.AppendUint32([]byte{0}, uint32(size)), make([]byte, some)...)
	for len(message) > 0 {
		part := min(len(message), 16<<10)
		out = appendFrame(out, data, 0, 1, message[:part])
		message = message[part:]
	}
	return out
}

func appendFrame(out []byte, kind, flags byte, stream uint32, payload []byte) []byte {
	out = append(out, byte(len(payload)>>16), byte(len(payload)>>8), byte(len(payload)), kind, flags)
	return append(binary.BigEndian.AppendUint32(out, stream), payload...)
}

// sendRaw makes a call with these bytes as message, and returns their number.
func sendRaw(ctx context.Context, conn *grpc.ClientConn, method string, message []byte) (int, error) {
	var answer []byte
	return len(message), conn.Invoke(ctx, method, &message, &answer, grpc.ForceCodec(bytesCodec{}),
		grpc.MaxCallSendMsgSize(2*serving.MaxMessage))
}

// bytesCodec treats bytes as the encoded message.
type bytesCodec struct{}

func (bytesCodec) Marshal(v any) ([]byte, error) {
	bytes, ok := v.(*[]byte)
	if !ok {
		return nil, fmt.Errorf("%T is not bytes", v)
	}
	return *bytes, nil
}

func (bytesCodec) Unmarshal(data []byte, v any) error {
	bytes, ok := v.(*[]byte)
	if !ok {
		return fmt.Errorf("%T is not bytes", v)
	}
	*bytes = append((*bytes)[:0], data...)
	return nil
}

func (bytesCodec) Name() string { return "proto" }
