package steering

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"

	"github.com/evenkeel/evenkeel/cloudprovider"
)

// Recorded is an event and its answer as they are written down, to be applied to another State later.
// Policies of Declare and strategies of ChooseBy are not: those that the other State is made with count.
type Recorded struct {
	At     time.Time
	Event  Event
	Answer Answer

	fields []byte // of the event
	err    error
}

// Record returns an event as it is before it is applied: that may change what it points to. The answer is added afterwards.
func Record(at time.Time, e Event) *Recorded {
	fields, err := marshalFields(reflect.ValueOf(e))
	return &Recorded{At: at, Event: e, fields: fields, err: err}
}

// eventTypes are the types of all events, by name.
var eventTypes = func() map[string]reflect.Type {
	out := map[string]reflect.Type{}
	for _, e := range []Event{
		Answered{}, Asked{}, Called{}, ChooseBy{}, Declare{}, Decrease{}, Decreased{}, Failed{}, Increase{}, JournalRead{}, JournalSaved{},
		Late{}, LoopBegins{}, LoopSkipped{}, NewProcess{}, NodesDeleted{}, Observe{}, Order{}, OrderEnded{}, Overdue{}, Released{}, Saw{},
		Shift{}, Show{}, Sizes{}, Started{}, Stop{}, TakenBack{}, Unread{}, Withdraw{},
	} {
		out[reflect.TypeOf(e).Name()] = reflect.TypeOf(e)
	}
	return out
}()

// recorded is the JSON of a Recorded.
type recorded struct {
	At     time.Time       `json:"at"`
	Event  string          `json:"event"`
	Fields json.RawMessage `json:"fields"`
	Answer json.RawMessage `json:"answer"`
}

// MarshalJSON implements json.Marshaler.
func (r *Recorded) MarshalJSON() ([]byte, error) {
	answer, err := marshalFields(reflect.ValueOf(r.Answer))
	if err := errors.Join(r.err, err); err != nil {
		return nil, err
	}
	return json.Marshal(recorded{At: r.At, Event: reflect.TypeOf(r.Event).Name(), Fields: r.fields, Answer: answer})
}

// UnmarshalJSON implements json.Unmarshaler.
func (r *Recorded) UnmarshalJSON(text []byte) error {
	var in recorded
	if err := json.Unmarshal(text, &in); err != nil {
		return err
	}
	kind, known := eventTypes[in.Event]
	if !known {
		return fmt.Errorf("unknown event %q", in.Event)
	}
	event := reflect.New(kind)
	if err := unmarshalFields(in.Fields, event.Elem()); err != nil {
		return fmt.Errorf("event %s: %w", in.Event, err)
	}
	r.At, r.Event = in.At, event.Elem().Interface().(Event)
	if err := complete(r.Event); err != nil {
		return fmt.Errorf("event %s: %w", in.Event, err)
	}
	if err := unmarshalFields(in.Answer, reflect.ValueOf(&r.Answer).Elem()); err != nil {
		return fmt.Errorf("answer to %s: %w", in.Event, err)
	}
	for i := range r.Answer.TakeBacks {
		if r.Answer.TakeBacks[i].Group == nil {
			return fmt.Errorf("answer to %s: TakeBacks[%d].Group: must not be null", in.Event, i)
		}
	}
	return nil
}

// complete returns an error for an event that lacks what each of its kind has.
func complete(e Event) error {
	switch e := e.(type) {
	case Asked:
		q := &e.Question
		for i := range q.Options {
			if slices.ContainsFunc(q.Options[i].Pods, func(pod int) bool { return pod < 0 || pod >= len(q.Pods) }) {
				return fmt.Errorf("Question.Options[%d].Pods: must be indexes of Pods", i)
			}
		}
		return cmp.Or(some("Question.Pods", q.Pods...), some("Question.Nodes", slices.Collect(maps.Values(q.Nodes))...))
	case LoopBegins:
		return e.Reading.complete()
	case Show:
		return cmp.Or(some("Reading", e.Reading), e.Reading.complete())
	case Failed:
		return some("Group", e.Group)
	case Overdue:
		return some("Group", e.Group)
	case Late:
		return some("Groups", e.Groups...)
	case TakenBack:
		return cmp.Or(some("Group", e.Group), some("Nodes", e.Nodes...))
	case NodesDeleted:
		return some("Nodes", e.Nodes...)
	}
	return nil
}

func (v *Cloud) complete() error {
	if v == nil {
		return nil
	}
	for id, g := range v.Groups {
		if g == nil || g.ID != id {
			return fmt.Errorf("Reading.Groups[%q]: must be the group of this name", id)
		}
	}
	return nil
}

// some returns an error if one of the values is missing.
func some[T any](name string, values ...*T) error {
	if slices.Contains(values, nil) {
		return fmt.Errorf("%s: must not be null", name)
	}
	return nil
}

// Configures reports whether the event brings a configuration that is not written down.
func (r *Recorded) Configures() bool {
	switch e := r.Event.(type) {
	case Declare:
		return e.Err == nil
	case ChooseBy:
		return e.Err == nil
	}
	return false
}

// MarshalJSON implements json.Marshaler, for the errors.
func (g *Group) MarshalJSON() ([]byte, error) { return marshalFields(reflect.ValueOf(g).Elem()) }

// UnmarshalJSON implements json.Unmarshaler.
func (g *Group) UnmarshalJSON(text []byte) error {
	return unmarshalFields(text, reflect.ValueOf(g).Elem())
}

// marshalFields returns the fields of a struct as JSON; those with errors as recordedErrors.
func marshalFields(v reflect.Value) ([]byte, error) {
	out := map[string]any{}
	for i := range v.NumField() {
		field := v.Type().Field(i)
		switch value := v.Field(i).Interface().(type) {
		case error:
			out[field.Name] = recordError(value)
		default:
			if !v.Field(i).IsZero() && field.Tag.Get("json") != "-" {
				out[field.Name] = value
			}
		}
	}
	return json.Marshal(out)
}

func unmarshalFields(text []byte, v reflect.Value) error {
	in := map[string]json.RawMessage{}
	if err := json.Unmarshal(text, &in); err != nil {
		return err
	}
	for i := range v.NumField() {
		name := v.Type().Field(i).Name
		value, there := in[name]
		if !there {
			continue
		}
		to := v.Field(i).Addr().Interface()
		if _, is := to.(*error); is {
			read := &recordedError{}
			v.Field(i).Set(reflect.ValueOf(read))
			to = read
		}
		if err := json.Unmarshal(value, to); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// recordedError is an error with what it matters to be.
type recordedError struct {
	Message string   `json:"message"`
	Kinds   []string `json:"is,omitempty"`
}

// matter are the errors of which it matters whether an error is one of them.
var matter = []error{
	ErrNotLeader, ErrOutdated, cloudprovider.ErrNotImplemented, cloudprovider.ErrNotFound, cloudprovider.ErrInvalidDelta,
	cloudprovider.ErrAboveMax, cloudprovider.ErrBelowMin, cloudprovider.ErrNotInGroup, cloudprovider.ErrOutOfResources,
	cloudprovider.ErrQuotaExceeded, cloudprovider.ErrUnavailable,
}

func recordError(err error) *recordedError {
	out := &recordedError{Message: err.Error()}
	for _, one := range matter {
		if errors.Is(err, one) {
			out.Kinds = append(out.Kinds, one.Error())
		}
	}
	return out
}

func (e *recordedError) Error() string { return e.Message }

// Is reports whether the error was the other one when it was written down.
func (e *recordedError) Is(other error) bool { return slices.Contains(e.Kinds, other.Error()) }
