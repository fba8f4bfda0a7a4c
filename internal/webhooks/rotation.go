package webhooks

import (
	"crypto/x509"
	"slices"
	"time"
)

// rotation says when certificates are replaced.
type rotation struct {
	hosts    []string
	lifetime time.Duration
}

// propagation is how long the next authority must have been in all configurations.
func (r rotation) propagation() time.Duration {
	return max(time.Second, min(time.Minute, r.lifetime/2000))
}

// retain is how long the authority that was replaced is still trusted.
func (r rotation) retain() time.Duration { return min(time.Hour, r.lifetime/10) }

// What a step of a rotation did.
const (
	stepNone     = ""
	stepRestored = "restored the certificate"
	stepMade     = "made a certificate"
	stepPrepared = "prepared the next certificate"
	stepReplaced = "replaced the certificate"
	stepDropped  = "dropped a former authority"
)

// advance returns the state that follows: at most one step of a rotation. stored is what the Secret
// says, nil if there is none or if it is not usable; held is what this replica serves, if anything, and
// known are the authorities in the configurations: other replicas may serve what they have signed. noticed
// reports whether the API server has known the next authority for long enough.
func (r rotation) advance(stored, held *state, known []*x509.Certificate, noticed bool, now time.Time) (*state, string, error) {
	s, forced, step := state{}, false, stepNone
	switch {
	case stored != nil:
		s = *stored
	case held != nil:
		s, forced, step = *held, held.next == nil, stepRestored
		s.rotated, s.former = now, newest(r.others(&s, known))
	}
	if kept := r.trusted(&s, now); len(kept) < len(s.former) {
		s.former, step = kept, stepDropped
	}
	var err error
	switch {
	case s.current == nil || now.After(s.current.expires()): // nothing that works is lost
		fresh := s.next
		if fresh == nil || now.After(fresh.expires()) || !fresh.begun(now) {
			fresh, err = newPair(now, r.lifetime, r.hosts)
		}
		if err != nil {
			return nil, stepNone, err
		}
		made := &state{current: fresh, former: newest(known), rotated: now}
		made.former = r.trusted(made, now)
		return made, stepMade, nil
	case s.next != nil && now.After(s.next.expires()):
		s.next, step = nil, stepPrepared
		fallthrough
	case s.next == nil:
		if hosts := r.due(s.current, now); forced || hosts != nil {
			if hosts == nil {
				hosts = r.hosts
			}
			s.next, err = newPair(now, r.lifetime, hosts)
			step = stepPrepared
		}
	case noticed && s.next.begun(now):
		s = state{current: s.next, former: newest(append(slices.Clone(s.former), s.current.authority)), rotated: now}
		step = stepReplaced
	}
	return &s, step, err
}

// due returns the hosts of the pair that should replace p now, nil if none should. While replicas want
// different hosts, such as in a rollout, the certificate is for all of them.
func (r rotation) due(p *pair, now time.Time) []string {
	if p.expires().Sub(now) < r.lifetime/3 {
		return r.hosts
	}
	if lacking := p.lacks(r.hosts); lacking != nil {
		return append(p.hosts(), lacking...)
	}
	return nil
}

// trusted are the former authorities that are not dropped yet.
func (r rotation) trusted(s *state, now time.Time) []*x509.Certificate {
	if now.Sub(s.rotated) >= r.retain() {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(s.former), func(a *x509.Certificate) bool {
		return now.After(a.NotAfter) || a.Equal(s.current.authority)
	})
}

// others are the former authorities of a state and those that are known, without those of its pairs.
func (rotation) others(s *state, known []*x509.Certificate) (others []*x509.Certificate) {
	for _, a := range append(slices.Clone(s.former), known...) {
		if !a.Equal(s.current.authority) && (s.next == nil || !a.Equal(s.next.authority)) && !slices.ContainsFunc(others, a.Equal) {
			others = append(others, a)
		}
	}
	return others
}

// again is how soon the next step may be due, at most limit.
func (r rotation) again(s *state, now time.Time, limit time.Duration) time.Duration {
	if s.next != nil {
		return min(limit, r.propagation())
	}
	return min(limit, max(time.Second, s.current.expires().Sub(now)-r.lifetime/3))
}
