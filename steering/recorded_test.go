package steering

import (
	"encoding/json"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/evenkeel/evenkeel/cloudprovider"
	"github.com/evenkeel/evenkeel/expander"
	"github.com/evenkeel/evenkeel/nodegroupset"
)

// TestWhatIsRecordedLeadsToTheSame: the events of a life of the sidecar, written down and read again, have the same answers, and
// lead to the same state.
func TestWhatIsRecordedLeadsToTheSame(t *testing.T) {
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 1))
		w := newWorld(2+r.IntN(2), 1+r.IntN(4), 2, [most]int{}, nil)
		w.kind, w.recording = worldKind{inferred: r.IntN(4) == 0, deadline: r.IntN(2) == 0}, true
		w.restart()
		for range 60 {
			moves := w.moves()
			if len(moves) == 0 {
				break
			}
			moves[r.IntN(len(moves))].do(w)
		}
		again := &world{groups: w.groups, kind: w.kind}
		state, err := New(w.state.saved.writer, Options{Similarity: nodegroupset.Options{Policies: again.policies()}})
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range w.recorded {
			text, err := json.Marshal(line)
			if err != nil {
				t.Fatal(err)
			}
			var read Recorded
			if err := json.Unmarshal(text, &read); err != nil {
				t.Fatalf("%v: %s", err, text)
			}
			if read.Configures() {
				read.Event = line.Event
			}
			if got, _ := state.Step(read.At, read.Event); !got.Equal(&read.Answer) {
				t.Fatalf("seed %d: %s is answered with %+v, was %+v", seed, text, got, read.Answer)
			}
		}
		before := w.print()
		if w.state = state; w.print() != before {
			t.Fatalf("seed %d: another state", seed)
		}
	}
}

// Events of all types can be read again.
func TestEventsOfAllTypesCanBeRecorded(t *testing.T) {
	if got := slices.Sorted(maps.Keys(eventTypes)); !slices.Equal(got, slices.Sorted(slices.Values(declaredEvents(t)))) {
		t.Errorf("%v can be recorded, there are %v", got, declaredEvents(t))
	}
}

// No line leads to a panic, whatever was applied before.
func FuzzRecorded(f *testing.F) {
	w := newWorld(2, 2, 0, [most]int{}, nil)
	w.recording = true
	w.restart()
	w.begin()
	w.refresh()
	w.choose(w.ask(taken))
	w.increase(taken)
	var lines strings.Builder
	for _, line := range w.recorded {
		if err := json.NewEncoder(&lines).Encode(line); err != nil {
			f.Fatal(err)
		}
	}
	f.Add(lines.String())
	f.Add(`{"event":"Show","fields":{"Reading":{"Groups":{"a":{"ID":"a"}}}},"answer":{}}`)
	f.Fuzz(func(t *testing.T, text string) {
		state, err := New("fuzz", Options{})
		if err != nil {
			t.Fatal(err)
		}
		for lines := json.NewDecoder(strings.NewReader(text)); lines.More(); {
			var read Recorded
			if lines.Decode(&read) != nil {
				return
			}
			answer, _ := state.Step(read.At, read.Event)
			if answer.Equal(&read.Answer) && answer.String() != read.Answer.String() {
				t.Errorf("%s and %s are equal", answer.String(), read.Answer.String())
			}
		}
	})
}

// What a line says of a reading and of errors is all there when it is read again.
func TestARecordedReading(t *testing.T) {
	g := &Group{NodeGroup: cloudprovider.NodeGroup{ID: "a", MaxSize: 3}, Target: 2, Revision: -1, Err: cloudprovider.ErrUnavailable,
		Template: cloudprovider.Template{Node: templates[0]}}
	var read Recorded
	for _, e := range []Event{
		Show{&Cloud{At: epoch, Groups: map[string]*Group{"a": g}}}, OrderEnded{Group: "a", Err: cloudprovider.ErrOutOfResources},
		Asked{Question{Options: []expander.Offer{{Group: "a", NodeCount: 1, Pods: []int{}}}}},
	} {
		line := Record(epoch, e)
		line.Answer = Answer{Nodes: 1, Err: ErrNotLeader}
		first, err := json.Marshal(line)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(first, &read); err != nil {
			t.Fatal(err)
		}
		again := Record(read.At, read.Event)
		again.Answer = read.Answer
		second, err := json.Marshal(again)
		if err != nil || !slices.Equal(first, second) {
			t.Errorf("%s was %s, %v", second, first, err)
		}
	}
	for text, want := range map[string]string{
		`{"event":"Ask"}`: `unknown event "Ask"`, `{"event":"Increase","fields":{"Delta":"x"},"answer":{}}`: "event Increase: Delta: ",
		`{`: "unexpected end of JSON input",
	} {
		if err := json.Unmarshal([]byte(text), &read); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", text, err, want)
		}
	}
}
