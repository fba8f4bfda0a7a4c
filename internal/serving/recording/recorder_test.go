package recording

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// disk is a file that takes writes when it is let to, and may be full.
type disk struct {
	gate chan struct{} // nil for open
	mu   sync.Mutex
	room int
	text strings.Builder
}

func (d *disk) Write(p []byte) (int, error) {
	if d.gate != nil {
		<-d.gate
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	n := min(d.room, len(p))
	d.room -= n
	d.text.Write(p[:n])
	if n < len(p) {
		return n, errors.New("no space left")
	}
	return n, nil
}

func (d *disk) Close() error { return nil }

func intercept(t *testing.T, r *Recorder, request any) {
	t.Helper()
	answer, err := r.Intercept(t.Context(), request, &grpc.UnaryServerInfo{FullMethod: "/a.B/C"}, func(context.Context, any) (any, error) {
		return request, nil
	})
	if err != nil || answer != request {
		t.Errorf("answer %v, error %v", answer, err)
	}
}

// TestSlowFileCostsBoundedMemory: what does not fit the queue is left out, and reported once.
func TestSlowFileCostsBoundedMemory(t *testing.T) {
	var told []error
	slow := &disk{gate: make(chan struct{}), room: 1 << 20}
	request := wrapperspb.String(strings.Repeat("x", 100))
	size := 2 * proto.Size(request)
	r := newRecorder(slow, Options{MaxQueued: 5 * size, Report: func(err error) { told = append(told, err) }})
	for range 9 {
		intercept(t, r, request)
	}
	if len(told) != 1 || !strings.Contains(told[0].Error(), "left out") {
		t.Errorf("told %v", told)
	}
	close(slow.gate)
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	if n := strings.Count(slow.text.String(), "\n"); n != 5 || r.queued != 0 {
		t.Errorf("%d lines written, %d bytes still in the queue", n, r.queued)
	}
}

// TestFullDisk: a line that is cut off is ended before the next one, and the
// trouble is reported once.
func TestFullDisk(t *testing.T) {
	var told []error
	full := &disk{room: 100}
	r := newRecorder(full, Options{Report: func(err error) { told = append(told, err) }})
	for range 3 {
		intercept(t, r, wrapperspb.String("first"))
	}
	for func() bool { r.mu.Lock(); defer r.mu.Unlock(); return r.queued > 0 }() {
	}
	full.mu.Lock()
	full.room = 1 << 20
	full.mu.Unlock()
	intercept(t, r, wrapperspb.String("last"))
	intercept(t, r, "no message")
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	lines := strings.Split(strings.TrimSpace(full.text.String()), "\n")
	if len(lines) != 3 || !strings.Contains(lines[2], `"request":"last"`) || len(told) != 1 ||
		!strings.Contains(told[0].Error(), "no space left") {
		t.Errorf("told %v, written\n%s", told, full.text.String())
	}
}
