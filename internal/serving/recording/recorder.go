package recording

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"k8s.io/utils/clock"
)

const (
	// DefaultMaxQueued is the maximum size of the queue in bytes: a request and an answer of
	// maximum size.
	DefaultMaxQueued = 256 << 20
	// maxQueuedCalls is how many calls may wait to be written.
	maxQueuedCalls = 4096
	// Health checks come every few seconds and carry no information.
	unrecorded = "/grpc.health.v1.Health/"
)

// Options of a recorder. The zero value is usable.
type Options struct {
	// MaxQueued is how much may wait to be written, in bytes of the messages; 0
	// means DefaultMaxQueued. The one being written comes in addition, as JSON.
	MaxQueued int
	// Report is called once that calls do not fit the queue, and once that the file
	// cannot be written. It is called in the midst of a call and must not wait. nil
	// means that nothing is reported.
	Report func(error)
	// Clock gives the times of calls; nil means the real one.
	Clock clock.PassiveClock
}

// Recorder appends calls to a file.
type Recorder struct {
	file   io.WriteCloser
	clock  clock.PassiveClock
	start  time.Time
	report [2]func(error) // of a full queue, of a file that fails
	limit  int

	queue chan *entry
	done  chan struct{} // closed when all is written

	mu     sync.Mutex
	queued int // bytes of the messages in the queue
	closed bool
}

// Open opens a recorder that appends to a file as of OpenFile. Close ends it.
func Open(name string, o Options) (*Recorder, error) {
	file, err := OpenFile(name)
	if err != nil {
		return nil, err
	}
	return newRecorder(file, o), nil
}

// OpenFile opens a file to append lines to, which only its owner may read, because pods contain
// confidential data. A line that was cut off is ended.
func OpenFile(name string) (*os.File, error) {
	file, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("recording: %w", err)
	}
	if err := prepare(file); err != nil {
		_ = file.Close() // nothing was written
		return nil, fmt.Errorf("recording: %w", err)
	}
	return file, nil
}

// prepare makes an older file private, and ends a line that was cut off.
func prepare(file *os.File) error {
	info, err := file.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return err
	}
	if info.Mode().Perm() != 0o600 {
		if err := file.Chmod(0o600); err != nil {
			return err
		}
	}
	if info.Size() == 0 {
		return nil
	}
	last := make([]byte, 1)
	if _, err := file.ReadAt(last, info.Size()-1); err != nil || last[0] == '\n' {
		return err
	}
	_, err = file.WriteString("\n")
	return err
}

func newRecorder(file io.WriteCloser, o Options) *Recorder {
	r := &Recorder{file: file, clock: cmp.Or[clock.PassiveClock](o.Clock, clock.RealClock{}), limit: cmp.Or(o.MaxQueued, DefaultMaxQueued),
		queue: make(chan *entry, maxQueuedCalls), done: make(chan struct{})}
	r.start = r.clock.Now()
	for i := range r.report {
		r.report[i] = once(o.Report)
	}
	go r.write()
	return r
}

func once(report func(error)) func(error) {
	var reported sync.Once
	return func(err error) {
		if report != nil {
			reported.Do(func() { report(err) })
		}
	}
}

// Close writes what waits and closes the file. Calls that come later are lost.
func (r *Recorder) Close() error {
	r.mu.Lock()
	if !r.closed {
		r.closed = true
		close(r.queue)
	}
	r.mu.Unlock()
	<-r.done
	return r.file.Close()
}

// Intercept records a call. It is a grpc.UnaryServerInterceptor. The messages are
// written later: the handler must not change them after it has returned.
func (r *Recorder) Intercept(ctx context.Context, request any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	at := r.clock.Since(r.start)
	answer, err := handle(ctx, request)
	if !strings.HasPrefix(info.FullMethod, unrecorded) {
		r.put(info.FullMethod, at, request, answer, err)
	}
	return answer, err
}

func (r *Recorder) put(method string, at time.Duration, request, answer any, err error) {
	e := &entry{method: method, time: at, err: asStatus(err)}
	var ok bool
	if e.request, ok = request.(proto.Message); !ok {
		return // some other codec's
	}
	if e.err == nil {
		if e.response, ok = answer.(proto.Message); !ok {
			return
		}
	}
	e.size = proto.Size(e.request) + proto.Size(e.response)
	r.mu.Lock()
	full := r.queued+e.size > r.limit || len(r.queue) == cap(r.queue)
	if !full && !r.closed {
		r.queued += e.size
		r.queue <- e
	}
	r.mu.Unlock()
	if full {
		r.report[0](errors.New("recording: calls come faster than the file takes them, some are left out"))
	}
}

// asStatus turns an error into the one the client sees.
func asStatus(err error) error {
	if err == nil {
		return nil
	}
	if found, ok := status.FromError(err); ok {
		return found.Err()
	}
	return status.FromContextError(err).Err()
}

// write writes what is in the queue until that is closed.
func (r *Recorder) write() {
	defer close(r.done)
	out := bufio.NewWriterSize(r.file, 64<<10)
	torn := false // whether the file ends within a line
	for e := range r.queue {
		err := r.line(out, e, torn)
		torn = err != nil
		if torn {
			out.Reset(r.file)
			r.report[1](fmt.Errorf("recording %s: %w", e.method, err))
		}
		r.mu.Lock()
		r.queued -= e.size
		r.mu.Unlock()
	}
}

func (r *Recorder) line(out *bufio.Writer, e *entry, torn bool) error {
	if torn {
		if err := out.WriteByte('\n'); err != nil {
			return err
		}
	}
	return e.write(out)
}
