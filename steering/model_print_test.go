package steering

import (
	"encoding/binary"
	"hash"
	"reflect"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/evenkeel/evenkeel/cloudprovider"
)

// immaterial are fields that decide nothing that is still to come: they count, describe, or are
// worked out anew before they are read.
var immaterial = map[string]bool{
	"State.o": true, "State.now": true, "State.out": true, "nodes.at": true, "nodes.observed": true, "sets.index": true,
	"caller.loop": true, "caller.process": true, "published.warned": true, "saved.writer": true, "groupOrders.revision": true,
	"pick.from": true, "pick.why": true, "split.why": true, "plan.why": true, "Group.Revision": true, "Group.DetailsAt": true,
	"Cloud.At": true, "journal.Writer": true, "order.err": true, "Failure.Reason": true, "member.option": true,
}

// A printer writes down a state so that two states have the same print exactly if the same follows
// from them.
type printer struct {
	hash.Hash
	now        time.Time
	loop       int
	connection string
}

// oldest is the age above which a time is as good as any.
const oldest = 16 * time.Minute

func (p *printer) number(n int) {
	var text [8]byte
	binary.LittleEndian.PutUint64(text[:], uint64(n)) // any bits do
	_, _ = p.Write(text[:])
}

func (p *printer) text(s string) {
	p.number(len(s))
	_, _ = p.Write([]byte(s))
}

func (p *printer) print(v reflect.Value) {
	switch v.Type() {
	case reflect.TypeFor[time.Time]():
		age := -time.Hour
		if at := instant(v); !at.IsZero() {
			age = min(p.now.Sub(at), oldest)
		}
		p.number(int(age / time.Millisecond))
		return
	case reflect.TypeFor[cloudprovider.Template](), reflect.TypeFor[*v1.Node](), reflect.TypeFor[*v1.Pod]():
		return
	}
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if v.IsNil() {
			p.number(0)
			return
		}
		p.number(1)
		if v.Kind() == reflect.Pointer {
			p.print(v.Elem())
		}
	case reflect.Struct:
		for i := range v.NumField() {
			field := v.Type().Field(i)
			switch name := v.Type().Name() + "." + field.Name; {
			case name == "answer.connection":
				if v.Field(i).String() == p.connection {
					p.number(1)
				}
			case !immaterial[name]:
				p.print(v.Field(i))
			}
		}
	case reflect.Slice, reflect.Array:
		p.number(v.Len())
		for i := range v.Len() {
			p.print(v.Index(i))
		}
	case reflect.Map:
		p.printMap(v)
	case reflect.String:
		p.text(v.String())
	case reflect.Bool:
		if v.Bool() {
			p.number(1)
		} else {
			p.number(0)
		}
	default:
		p.number(int(v.Int()))
	}
}

func (p *printer) printMap(v reflect.Value) {
	keys := v.MapKeys()
	slices.SortFunc(keys, func(a, b reflect.Value) int {
		if a.Kind() == reflect.String {
			return strings.Compare(a.String(), b.String())
		}
		return int(a.Int() - b.Int())
	})
	p.number(len(keys))
	for _, key := range keys {
		p.print(key)
		p.print(v.MapIndex(key))
	}
}

// instant is a time that may be in a field that is not exported, which has no Interface: the wall clock of
// the worlds has no monotonic reading, so that its fields are nanoseconds, and seconds since the year 1.
func instant(v reflect.Value) time.Time {
	seconds, nanoseconds := v.FieldByName("ext").Int(), v.FieldByName("wall").Uint()
	return time.Unix(seconds+time.Time{}.Unix(), int64(nanoseconds))
}
