package page

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"time"
)

const (
	// MaxStreams is how many streams of events a page has at the most. A browser that gets none loads the
	// page anew every few seconds.
	MaxStreams = 8
	// pollInterval is how often streams ask for the state, and age how long a state that has not changed
	// is shown: the page has times that pass.
	pollInterval, age = time.Second, 10 * time.Second
	// readWithin is how long a reader may take to read an event. A slower one is disconnected.
	readWithin = 10 * time.Second
)

// shown is what all streams show.
type shown struct {
	at      time.Time // when the state was read
	since   time.Time // when the event was made
	version int       // counts events
	state   []byte    // without the time
	event   []byte
}

// Close ends all streams, and there are no new ones. A server does so at the beginning of its end.
func (p *Page) Close() { p.end.Do(func() { close(p.ended) }) }

// stream sends the main part of the page whenever the state has changed. It never makes anybody wait but
// its own reader: a decision does not know of streams, they poll by themselves.
func (p *Page) stream(w http.ResponseWriter, r *http.Request) {
	select {
	case <-p.ended:
		http.Error(w, "the server ends", http.StatusServiceUnavailable)
		return
	default:
	}
	select {
	case p.streams <- struct{}{}:
		defer func() { <-p.streams }()
	default:
		w.Header().Set("Retry-After", "10")
		http.Error(w, fmt.Sprintf("there are %d streams already", MaxStreams), http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	if r.Method == http.MethodHead {
		return
	}
	to := http.NewResponseController(w)
	_ = to.SetReadDeadline(time.Time{}) // that of the server is for requests; a writer without deadlines needs none
	poll := p.clock.NewTicker(pollInterval)
	defer poll.Stop()
	for seen := 0; ; {
		s, err := p.refresh()
		if err != nil {
			return // a new stream, or the page, has the error
		}
		if s.version != seen {
			seen = s.version
			_ = to.SetWriteDeadline(p.clock.Now().Add(readWithin))
			if _, err := w.Write(s.event); err != nil || to.Flush() != nil {
				return
			}
		}
		select {
		case <-poll.C():
		case <-r.Context().Done():
			return
		case <-p.ended:
			return
		}
	}
}

// refresh reads the state, unless that was done just now, and makes an event of it if it has changed or is old.
func (p *Page) refresh() (shown, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.clock.Now()
	if p.shown.version > 0 && now.Sub(p.shown.at) < pollInterval {
		return p.shown, nil
	}
	state, err := json.Marshal(p.state())
	if err != nil {
		return shown{}, err
	}
	p.shown.at = now
	facts, err := timeless(state)
	if err != nil || bytes.Equal(facts, p.shown.state) && now.Sub(p.shown.since) < age {
		return p.shown, err
	}
	body, err := render(state, "main")
	if err != nil {
		return shown{}, err
	}
	event := append([]byte("data: "), bytes.ReplaceAll(bytes.TrimSpace(body), []byte("\n"), []byte("\ndata: "))...)
	p.shown = shown{at: now, since: now, version: p.shown.version + 1, state: facts, event: append(event, "\n\n"...)}
	return p.shown, nil
}

// timeless is a state without the time at which it was read.
func timeless(state []byte) ([]byte, error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(state, &fields); err != nil {
		return nil, err
	}
	delete(fields, "time")
	return json.Marshal(fields)
}
