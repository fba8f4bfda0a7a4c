package sidecar

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"time"

	"github.com/evenkeel/evenkeel/steering"
)

// Replayed is what comes out of recorded events when they are decided about again.
type Replayed struct {
	Events    int                 `json:"events"`
	CutOff    int                 `json:"cutOff"` // lines that are no JSON, as where a process was killed
	Decisions []steering.Decision `json:"decisions"`
	Differ    []Difference        `json:"differ"`
}

// Difference is an event that is answered otherwise than it was.
type Difference struct {
	Line  int       `json:"line"`
	Time  time.Time `json:"time"`
	Event string    `json:"event"`
	Was   string    `json:"was"`
	Now   string    `json:"now"`
}

// Replay applies recorded events, a line each, to a state with the given options, those of each process to a new one. It returns an
// error if a line is none of Options.Record. Lines that are cut off are counted only: their process was killed.
func Replay(in io.Reader, o steering.Options) (*Replayed, error) {
	out := &Replayed{Decisions: []steering.Decision{}, Differ: []Difference{}}
	state, err := steering.New("unknown", o)
	if err != nil {
		return nil, err
	}
	lines := bufio.NewReader(in)
	for n := 1; ; n++ {
		text, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			if out.Events == 0 && out.CutOff > 0 {
				return nil, errors.New("no line is an event")
			}
			return out, nil
		}
		if err != nil {
			return nil, err
		}
		var e steering.Recorded
		if !json.Valid(text) {
			out.CutOff++
			continue
		}
		if err := json.Unmarshal(text, &e); err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		if began, is := e.Event.(steering.Started); is {
			if state, err = steering.New(began.Writer, o); err != nil {
				return nil, err
			}
		}
		if e.Configures() {
			continue
		}
		out.Events++
		answer, effects := state.Step(e.At, e.Event)
		out.Decisions = append(out.Decisions, effects.Decisions...)
		if !answer.Equal(&e.Answer) {
			out.Differ = append(out.Differ, Difference{n, e.At, reflect.TypeOf(e.Event).Name(), e.Answer.String(), answer.String()})
		}
	}
}
