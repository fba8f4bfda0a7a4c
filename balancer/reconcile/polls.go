package reconcile

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// perPoll is how long all Balancers together leave between two reads that are made only to look: ten a second.
const perPoll = 100 * time.Millisecond

// polls has how many reads a look at each Balancer takes that is looked at from time to time, because something of it cannot be
// watched or read. However many they are, the API server is asked no more often. The zero value has none.
type polls struct {
	mu    sync.Mutex
	reads map[types.NamespacedName]int
	total int
}

// note notes how many reads a look takes, 0 for a Balancer that is not looked at, and says how long to wait for the next one at
// least.
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

// retry is when to try again what has failed for so long that the time between does not grow any more.
func (p *polls) retry(after time.Duration) time.Duration {
	if after < lastRetry {
		return after
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return max(after, time.Duration(p.total)*perPoll)
}
