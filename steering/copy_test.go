package steering

import (
	"encoding/binary"
	"hash"
	"reflect"
	"slices"
	"strings"
	"time"
	"unsafe"

	v1 "k8s.io/api/core/v1"

	"github.com/evenkeel/evenkeel/cloudprovider"
	"github.com/evenkeel/evenkeel/expander"
	"github.com/evenkeel/evenkeel/nodegroupset"
)

// shared are types whose values never change, or are the same in every state of the model checker.
var shared = map[reflect.Type]bool{
	reflect.TypeFor[*v1.Node](): true, reflect.TypeFor[*v1.Pod](): true, reflect.TypeFor[*Cloud](): true, reflect.TypeFor[*Group](): true,
	reflect.TypeFor[*nodegroupset.Index](): true, reflect.TypeFor[Options](): true, reflect.TypeFor[time.Time](): true,
	reflect.TypeFor[expander.Chain](): true, reflect.TypeFor[cloudprovider.Template](): true,
}

// fork returns a machine in the same state that shares nothing with this one that either may
// change.
func (s *Machine) fork() *Machine {
	var out *Machine
	forkInto(reflect.ValueOf(&out).Elem(), reflect.ValueOf(&s).Elem(), map[unsafe.Pointer]reflect.Value{})
	return out
}

// forkInto copies a value of which any part may be unexported.
func forkInto(to, from reflect.Value, done map[unsafe.Pointer]reflect.Value) {
	if shared[from.Type()] {
		to.Set(from)
		return
	}
	switch from.Kind() {
	case reflect.Pointer:
		if from.IsNil() {
			return
		}
		known, ok := done[from.UnsafePointer()]
		if !ok {
			known = reflect.New(from.Type().Elem())
			done[from.UnsafePointer()] = known
			forkInto(known.Elem(), from.Elem(), done)
		}
		to.Set(known)
	case reflect.Struct:
		for i := range from.NumField() {
			forkInto(open(to.Field(i)), open(from.Field(i)), done)
		}
	case reflect.Slice:
		if from.IsNil() {
			return
		}
		to.Set(reflect.MakeSlice(from.Type(), from.Len(), from.Len()))
		for i := range from.Len() {
			forkInto(to.Index(i), from.Index(i), done)
		}
	case reflect.Map:
		if from.IsNil() {
			return
		}
		to.Set(reflect.MakeMapWithSize(from.Type(), from.Len()))
		for each := from.MapRange(); each.Next(); {
			before, after := reflect.New(from.Type().Elem()).Elem(), reflect.New(from.Type().Elem()).Elem()
			before.Set(each.Value())
			forkInto(after, before, done)
			to.SetMapIndex(each.Key(), after)
		}
	default:
		to.Set(from)
	}
}

// open makes a field that is not exported one that can be read and set.
func open(field reflect.Value) reflect.Value {
	return reflect.NewAt(field.Type(), unsafe.Pointer(field.UnsafeAddr())).Elem()
}

// immaterial are fields that decide nothing that is still to come: they count, describe, or are
// worked out anew before they are read.
var immaterial = map[string]bool{
	"Machine.o": true, "Machine.writer": true, "Machine.index": true, "Machine.now": true, "Machine.out": true, "Machine.at": true,
	"Machine.observed": true, "Machine.loop": true, "Machine.warned": true, "Machine.process": true, "groupState.revision": true,
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
	binary.LittleEndian.PutUint64(text[:], uint64(n)) //nolint:gosec // any bits do
	_, _ = p.Write(text[:])
}

func (p *printer) text(s string) {
	p.number(len(s))
	_, _ = p.Write([]byte(s))
}

func (p *printer) print(v reflect.Value) {
	switch v.Type() {
	case reflect.TypeFor[time.Time]():
		at, _ := v.Interface().(time.Time)
		age := -time.Hour
		if !at.IsZero() {
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
				p.print(open(v.Field(i)))
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
		value := reflect.New(v.Type().Elem()).Elem()
		value.Set(v.MapIndex(key))
		p.print(reflect.ValueOf(key.Interface()))
		p.print(value)
	}
}
