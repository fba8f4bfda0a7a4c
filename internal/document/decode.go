package document

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// A decoder fills Go values from parsed ones, by the same rules for every type: json tags name the
// fields. It continues after a problem, so that all of them can be reported.
type decoder struct {
	lenient  bool // unknown and repeated fields are ignored
	problems []error
}

// decode fills the value that into points to.
func (d *decoder) decode(v *value, into any) { d.decodeAt(v, nil, into) }

// decodeAt does so for a part of a document, at the path it has there.
func (d *decoder) decodeAt(v *value, at *field.Path, into any) {
	d.value(v, at, reflect.ValueOf(into).Elem())
}

var (
	unmarshaler = reflect.TypeFor[json.Unmarshaler]()
	jsonNumber  = reflect.TypeFor[json.Number]()
)

// value fills rv, which is settable. A null means that the field was not given.
func (d *decoder) value(v *value, at *field.Path, rv reflect.Value) {
	if v.kind == null {
		return
	}
	if v.kind == number && leadingZero.MatchString(v.written) && (rv.Kind() != reflect.String || rv.Type() == jsonNumber) {
		d.add(field.Invalid(at, v.written, "is "+otherReadings(v)+": write it without leading zeros"))
		return
	}
	if reflect.PointerTo(rv.Type()).Implements(unmarshaler) {
		d.delegate(v, at, rv)
		return
	}
	switch rv.Kind() {
	case reflect.Pointer:
		p := reflect.New(rv.Type().Elem())
		d.value(v, at, p.Elem())
		rv.Set(p)
	case reflect.Struct:
		d.structure(v, at, rv)
	case reflect.Map:
		d.mapping(v, at, rv)
	case reflect.Slice:
		d.slice(v, at, rv)
	case reflect.String:
		d.text(v, at, rv)
	case reflect.Bool:
		d.boolean(v, at, rv)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		d.integer(v, at, rv)
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		d.unsigned(v, at, rv)
	case reflect.Float32, reflect.Float64:
		d.float(v, at, rv)
	default:
		d.add(field.InternalError(at, fmt.Errorf("no document has a %s", rv.Type())))
	}
}

func (d *decoder) structure(v *value, at *field.Path, rv reflect.Value) {
	if v.kind != object {
		d.wrongType(v, at, "an object")
		return
	}
	fields := fieldsOf(rv.Type())
	seen := make(map[string]int, len(v.members))
	for _, m := range v.members {
		path, known := fields.byName[m.key]
		first, again := seen[m.key]
		switch {
		case !known && !d.lenient:
			d.add(&UnknownField{Path: child(at, m.key).String(), Suggestion: suggest(m.key, fields.names)})
		case again && !d.lenient:
			d.repeated(m, child(at, m.key), first)
		case known:
			d.value(m.value, child(at, m.key), inside(rv, path))
		}
		if !again {
			seen[m.key] = m.line
		}
	}
}

func (d *decoder) mapping(v *value, at *field.Path, rv reflect.Value) {
	if v.kind != object {
		d.wrongType(v, at, "an object")
		return
	}
	t := rv.Type()
	out := reflect.MakeMapWithSize(t, len(v.members))
	seen := make(map[string]int, len(v.members))
	for _, m := range v.members {
		place := key(at, m.key)
		if first, again := seen[m.key]; again && !d.lenient {
			d.repeated(m, place, first)
			continue
		}
		seen[m.key] = m.line
		if m.value.kind == null && !d.lenient {
			d.wrongType(m.value, place, nounOf(t.Elem()))
			continue
		}
		item := reflect.New(t.Elem()).Elem()
		d.value(m.value, place, item)
		out.SetMapIndex(reflect.ValueOf(m.key).Convert(t.Key()), item)
	}
	rv.Set(out)
}

func (d *decoder) slice(v *value, at *field.Path, rv reflect.Value) {
	t := rv.Type()
	if t.Elem().Kind() == reflect.Uint8 {
		d.bytes(v, at, rv)
		return
	}
	if v.kind != list {
		d.wrongType(v, at, "a list")
		return
	}
	out := reflect.MakeSlice(t, len(v.items), len(v.items))
	for i, item := range v.items {
		if item.kind == null && !d.lenient {
			d.wrongType(item, index(at, i), nounOf(t.Elem()))
			continue
		}
		d.value(item, index(at, i), out.Index(i))
	}
	rv.Set(out)
}

func (d *decoder) text(v *value, at *field.Path, rv reflect.Value) {
	switch {
	case rv.Type() == jsonNumber:
		if v.kind != number {
			d.wrongType(v, at, "a number")
			return
		}
	case v.kind == number || v.kind == boolean:
		d.add(field.Invalid(at, json.RawMessage(v.text), fmt.Sprintf("must be a string: write it in quotes, %q", v.source())))
		return
	case v.kind != text:
		d.wrongType(v, at, "a string")
		return
	}
	rv.SetString(v.text)
}

// boolean also accepts the words of YAML 1.1 without quotes, as kubectl does.
func (d *decoder) boolean(v *value, at *field.Path, rv reflect.Value) {
	word := v.text
	if v.kind == text && v.plain {
		switch strings.ToLower(word) {
		case "y", "yes", "on":
			word = "true"
		case "n", "no", "off":
			word = "false"
		}
	}
	if v.kind != boolean && (!v.plain || word == v.text) {
		d.wrongType(v, at, "true or false")
		return
	}
	rv.SetBool(word == "true")
}

func (d *decoder) integer(v *value, at *field.Path, rv reflect.Value) {
	if v.kind != number || !isInteger(v.text) {
		d.wrongType(v, at, "an integer")
		return
	}
	least, most := int64(-1)<<(rv.Type().Bits()-1), int64(1)<<(rv.Type().Bits()-1)-1
	n, err := strconv.ParseInt(v.text, 10, 64) // out of range: the nearest it can be
	switch {
	case n > most || err != nil && n > 0:
		d.add(field.Invalid(at, json.RawMessage(v.text), fmt.Sprintf("must be at most %d", most)))
	case n < least || err != nil:
		d.add(field.Invalid(at, json.RawMessage(v.text), fmt.Sprintf("must be at least %d", least)))
	default:
		rv.SetInt(n)
	}
}

func (d *decoder) unsigned(v *value, at *field.Path, rv reflect.Value) {
	if v.kind != number || !isInteger(v.text) {
		d.wrongType(v, at, "an integer")
		return
	}
	n, err := strconv.ParseUint(v.text, 10, rv.Type().Bits())
	switch {
	case err == nil:
		rv.SetUint(n)
	case strings.HasPrefix(v.text, "-"):
		d.add(field.Invalid(at, json.RawMessage(v.text), "must not be negative"))
	default:
		d.add(field.Invalid(at, json.RawMessage(v.text), fmt.Sprintf("must be at most %d", uint64(1)<<rv.Type().Bits()-1)))
	}
}

func (d *decoder) float(v *value, at *field.Path, rv reflect.Value) {
	if v.kind != number {
		d.wrongType(v, at, "a number")
		return
	}
	n, err := strconv.ParseFloat(v.text, rv.Type().Bits())
	if err != nil {
		d.add(field.Invalid(at, json.RawMessage(v.text), "is out of range"))
		return
	}
	rv.SetFloat(n)
}

func (d *decoder) bytes(v *value, at *field.Path, rv reflect.Value) {
	if v.kind != text {
		d.wrongType(v, at, "a string in base64")
		return
	}
	b, err := base64.StdEncoding.DecodeString(v.text)
	if err != nil {
		d.add(field.Invalid(at, v.text, "must be a string in base64"))
		return
	}
	rv.SetBytes(b)
}

// delegate uses the UnmarshalJSON of a type that has it.
func (d *decoder) delegate(v *value, at *field.Path, rv reflect.Value) {
	noun := nounOf(rv.Type())
	if scalar := v.kind != list && v.kind != object; noun != anything && (!scalar || isQuantity(rv.Type()) && !plausibleQuantity(v.text)) {
		d.wrongType(v, at, noun)
		return
	}
	if err := rv.Addr().Interface().(json.Unmarshaler).UnmarshalJSON(v.appendJSON(nil)); err != nil {
		if noun == anything {
			d.add(field.Invalid(at, field.OmitValueType{}, strings.TrimPrefix(err.Error(), "json: ")))
			return
		}
		d.wrongType(v, at, noun)
		return
	}
	if quantity, ok := rv.Addr().Interface().(*resource.Quantity); ok {
		if detail := outOfRange(quantity); detail != "" {
			d.refuse(v, at, detail)
		}
	}
}

// wrongType reports what v must be instead. Lists and objects are named rather than shown.
func (d *decoder) wrongType(v *value, at *field.Path, noun string) {
	if at == nil {
		d.add(&syntaxError{detail: "must be " + noun})
		return
	}
	switch v.kind {
	case list:
		d.add(field.Invalid(at, field.OmitValueType{}, "must be "+noun+", not a list"))
	case object:
		d.add(field.Invalid(at, field.OmitValueType{}, "must be "+noun+", not an object"))
	default:
		if noun == nouns[quantityType] {
			noun += meantAmounts(v.text)
		}
		d.refuse(v, at, "must be "+noun)
	}
}

// refuse reports the problem of a scalar.
func (d *decoder) refuse(v *value, at *field.Path, detail string) {
	if v.kind == text {
		d.add(field.Invalid(at, v.text, detail))
		return
	}
	d.add(field.Invalid(at, json.RawMessage(v.appendJSON(nil)), detail))
}

func (d *decoder) repeated(m member, at *field.Path, first int) {
	d.add(&field.Error{Type: field.ErrorTypeDuplicate, Field: at.String(), BadValue: field.OmitValueType{},
		Detail: fmt.Sprintf("the field is given twice, on lines %d and %d", first, m.line)})
}

func (d *decoder) add(err error) { d.problems = append(d.problems, err) }

// child, key and index extend a path that may be empty.
func child(at *field.Path, name string) *field.Path {
	if at == nil {
		return field.NewPath(name)
	}
	return at.Child(name)
}

func key(at *field.Path, name string) *field.Path {
	if at == nil {
		return field.NewPath(name)
	}
	return at.Key(name)
}

func index(at *field.Path, i int) *field.Path {
	if at == nil {
		return field.NewPath(fmt.Sprintf("[%d]", i))
	}
	return at.Index(i)
}

// inside is the field of a struct at an index path, through embedded structs; pointers among them
// are made on the way.
func inside(rv reflect.Value, path []int) reflect.Value {
	for i, step := range path {
		if i > 0 && rv.Kind() == reflect.Pointer {
			if rv.IsNil() {
				rv.Set(reflect.New(rv.Type().Elem()))
			}
			rv = rv.Elem()
		}
		rv = rv.Field(step)
	}
	return rv
}
