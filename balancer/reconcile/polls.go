package reconcile

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/internal/controller/passes"
)

// perPoll is the time between two reads of all Balancers together that only poll: ten reads a
// second.
const perPoll = 100 * time.Millisecond

// polls limits how often the API server is asked about the Balancers that are polled, because a
// target cannot be watched or read. It holds how many reads a pass over each of them takes. The
// zero value holds none.
type polls struct {
	mu    sync.Mutex
	reads map[types.NamespacedName]int
	total int
}

// note sets how many reads a pass over a Balancer takes, 0 if it is not polled. It returns how long
// to wait at least until the next pass.
func (p *polls) note(key types.NamespacedName, reads int) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.total += reads - p.reads[key]
	if reads == 0 {
		delete(p.reads, key)
	} else {
		if p.reads == nil {
			p.reads = map[types.NamespacedName]int{}
		}
		p.reads[key] = reads
	}
	return time.Duration(p.total) * perPoll
}

// retry is how long to wait until a retry. The limit of polls applies once the back-off has reached
// its end.
func (p *polls) retry(after time.Duration) time.Duration {
	if after < passes.LastRetry {
		return after
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return max(after, time.Duration(p.total)*perPoll)
}
