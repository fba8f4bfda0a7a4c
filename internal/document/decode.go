package document

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/evenkeel/evenkeel/internal/spelling"
)

// What types are called that the decoder tells apart by it.
const (
	anObject  = "an object"
	aList     = "a list"
	aString   = "a string"
	aNumber   = "a number"
	aQuantity = "a quantity such as 500m, 2 or 4Gi"
	anything  = "a value" // a type that takes any JSON
)

var nouns = map[reflect.Type]string{
	reflect.TypeFor[resource.Quantity]():  aQuantity,
	reflect.TypeFor[metav1.Time]():        "a time such as 2026-01-31T15:04:05Z",
	reflect.TypeFor[metav1.MicroTime]():   "a time such as 2026-01-31T15:04:05.000000Z",
	reflect.TypeFor[metav1.Duration]():    "a duration such as 90s or 1h30m",
	reflect.TypeFor[intstr.IntOrString](): "an integer or a string",
	reflect.TypeFor[json.Number]():        aNumber,
	reflect.TypeFor[[]byte]():             "a string in base64",
}

var kindNouns = map[reflect.Kind]string{
	reflect.Struct: anObject, reflect.Map: anObject, reflect.Slice: aList, reflect.String: aString, reflect.Bool: "true or false",
	reflect.Float32: aNumber, reflect.Float64: aNumber, reflect.Interface: anything,
}

// nounOf names what a document must hold for a value of type t.
func nounOf(t reflect.Type) string {
	if noun, ok := nouns[t]; ok {
		return noun
	}
	if reflect.PointerTo(t).Implements(reflect.TypeFor[json.Unmarshaler]()) {
		return anything
	}
	if t.Kind() == reflect.Pointer {
		return nounOf(t.Elem())
	}
	return cmp.Or(kindNouns[t.Kind()], "an integer")
}

// A decoder fills Go values from a tree. It goes through objects and lists itself, so that it knows the path of every problem
// and continues after one; what is in them is decoded by package json.
type decoder struct {
	lenient  bool // unknown and repeated fields are ignored, as are nulls in lists and maps
	problems []error
}

// decode fills what into points to from a part of a document at a path, and returns the problems.
func (d *decoder) decode(n *yaml.Node, at *field.Path, into any) []error {
	d.value(n, at, reflect.ValueOf(into).Elem())
	return d.problems
}

func (d *decoder) add(err error) { d.problems = append(d.problems, err) }

// leadingZero tells numbers that YAML 1.1 takes for octal and YAML 1.2 for decimal.
var leadingZero = regexp.MustCompile(`^[-+]?0_*[0-9][0-9_]*(\.|$)`)

// value fills rv, which is settable. A null means that the field was not given.
func (d *decoder) value(n *yaml.Node, at *field.Path, rv reflect.Value) {
	t := rv.Type()
	switch noun := nounOf(t); {
	case n.Tag == "!!null":
	case isNumber(n) && noun != aString && leadingZero.MatchString(n.Value):
		octal, decimal := string(literal(n)), strings.TrimLeft(strings.ReplaceAll(n.Value, "_", ""), "+0")
		if octal == decimal || strings.ContainsAny(decimal, "-.89") {
			octal, decimal = "octal", "decimal"
		}
		d.add(field.Invalid(at, n.Value, fmt.Sprintf("is %s to some parsers and %s to others: write it without leading zeros", octal, decimal)))
	case t.Kind() == reflect.Pointer:
		rv.Set(reflect.New(t.Elem()))
		d.value(n, at, rv.Elem())
	case noun == anObject && n.Kind == yaml.MappingNode:
		d.object(n, at, rv)
	case noun == aList && n.Kind == yaml.SequenceNode:
		rv.Set(reflect.MakeSlice(t, len(n.Content), len(n.Content)))
		for i, part := range n.Content {
			d.element(part, at.Index(i), rv.Index(i))
		}
	default:
		d.leaf(n, at, rv, noun)
	}
}

// element fills a value of a list or map, which must be given.
func (d *decoder) element(n *yaml.Node, at *field.Path, rv reflect.Value) {
	if n.Tag == "!!null" && !d.lenient {
		d.wrongType(n, at, nounOf(rv.Type()))
		return
	}
	d.value(n, at, rv)
}

// fieldNames has the fields of structs by their names in documents. It follows from the types alone, so sharing it changes no
// answer.
var fieldNames sync.Map // of reflect.Type to map[string][]int

func fieldsOf(t reflect.Type) map[string][]int {
	known, ok := fieldNames.Load(t)
	if !ok {
		fields := map[string][]int{}
		collect(fields, t, nil)
		known, _ = fieldNames.LoadOrStore(t, fields)
	}
	return known.(map[string][]int)
}

// collect adds the fields of t, those of embedded structs without a name of their own as if they were its own, unless it has
// one of the name.
func collect(fields map[string][]int, t reflect.Type, outer []int) {
	for i := range t.NumField() {
		sf, at := t.Field(i), append(slices.Clone(outer), i)
		name, _, _ := strings.Cut(sf.Tag.Get("json"), ",")
		switch {
		case sf.Anonymous && name == "":
			collect(fields, sf.Type, at)
		case name != "-" && sf.IsExported():
			if other, ok := fields[cmp.Or(name, sf.Name)]; !ok || len(at) < len(other) {
				fields[cmp.Or(name, sf.Name)] = at
			}
		}
	}
}

// object fills a struct or a map.
func (d *decoder) object(n *yaml.Node, parent *field.Path, rv reflect.Value) {
	t := rv.Type()
	isMap, fields := t.Kind() == reflect.Map, map[string][]int(nil)
	if isMap {
		rv.Set(reflect.MakeMap(t))
	} else {
		fields = fieldsOf(t)
	}
	lines := make(map[string]int, len(n.Content)/2)
	for i := 0; i < len(n.Content); i += 2 {
		name, line, part := n.Content[i].Value, n.Content[i].Line, n.Content[i+1]
		first, again := lines[name]
		if !again {
			lines[name] = line
		}
		at := parent.Child(name)
		if isMap {
			at = parent.Key(name)
		}
		switch index, known := fields[name]; {
		case !isMap && !known:
			d.unknown(at, name, fields)
		case again && !d.lenient:
			d.add(&field.Error{Type: field.ErrorTypeDuplicate, Field: at.String(), BadValue: field.OmitValueType{},
				Detail: fmt.Sprintf("the field is given twice, on lines %d and %d", first, line)})
		case known:
			d.value(part, at, rv.FieldByIndex(index))
		default:
			value := reflect.New(t.Elem()).Elem()
			d.element(part, at, value)
			rv.SetMapIndex(reflect.ValueOf(name).Convert(t.Key()), value)
		}
	}
}

// unknown reports a field that an object does not have, with one of a similar name.
func (d *decoder) unknown(at *field.Path, name string, fields map[string][]int) {
	near := spelling.Nearest(name, slices.Sorted(maps.Keys(fields)))
	switch {
	case d.lenient:
	case len(near) > 0:
		d.add(fmt.Errorf("%s: unknown field (did you mean %q?)", at, near[0]))
	default:
		d.add(fmt.Errorf("%s: unknown field", at))
	}
}

// leaf fills a value that is neither an object nor a list, or that reads itself.
func (d *decoder) leaf(n *yaml.Node, at *field.Path, rv reflect.Value, noun string) {
	raw := appendJSON(nil, n)
	switch {
	case noun == anything:
	case !mayBe(n, noun):
		d.wrongType(n, at, noun)
		return
	case noun == aString && n.Tag != "!!str":
		d.refuse(n, at, fmt.Sprintf("must be a string: write it in quotes, %q", n.Value))
		return
	case rv.Kind() == reflect.Bool && n.Tag == "!!str" && (n.Style == 0 || d.lenient):
		raw = []byte(cmp.Or(booleans[strings.ToLower(n.Value)], string(raw)))
	}
	err := json.Unmarshal(raw, rv.Addr().Interface())
	quantity, _ := rv.Addr().Interface().(*resource.Quantity)
	switch {
	case err != nil && noun == anything:
		d.add(field.Invalid(at, field.OmitValueType{}, strings.TrimPrefix(err.Error(), "json: ")))
	case err != nil && isNumber(n) && outOfBounds(rv, string(raw)) != "":
		d.refuse(n, at, outOfBounds(rv, string(raw)))
	case err != nil:
		d.wrongType(n, at, noun)
	case quantity != nil && outOfRange(quantity) != "":
		d.refuse(n, at, outOfRange(quantity))
	}
}

// mayBe reports whether a value may be decoded as what a noun names.
func mayBe(n *yaml.Node, noun string) bool {
	return n.Kind == yaml.ScalarNode && (noun != aQuantity || plausibleQuantity(n.Value)) && (noun != aNumber || isNumber(n))
}

// booleans are the words of YAML 1.1 for them, which kubectl takes without quotes.
var booleans = map[string]string{"y": "true", "yes": "true", "on": "true", "n": "false", "no": "false", "off": "false"}

var integer = regexp.MustCompile(`^-?[0-9]+$`)

// outOfBounds says what a number must be that the type of rv cannot hold for its size; "" if there is another reason.
func outOfBounds(rv reflect.Value, number string) string {
	switch negative := number[0] == '-'; {
	case rv.CanFloat():
		return "is out of range"
	case !integer.MatchString(number) || !rv.CanInt() && !rv.CanUint():
		return ""
	case rv.CanUint() && negative:
		return "must not be negative"
	case rv.CanUint():
		return fmt.Sprintf("must be at most %d", uint64(math.MaxUint64)>>(64-rv.Type().Bits()))
	case negative:
		return fmt.Sprintf("must be at least %d", int64(math.MinInt64)>>(64-rv.Type().Bits()))
	}
	return fmt.Sprintf("must be at most %d", int64(math.MaxInt64)>>(64-rv.Type().Bits()))
}

// wrongType reports what n must be instead. Lists and objects are named rather than shown.
func (d *decoder) wrongType(n *yaml.Node, at *field.Path, noun string) {
	switch {
	case at == nil:
		d.add(&syntaxError{detail: "must be " + noun})
	case n.Kind == yaml.SequenceNode:
		d.add(field.Invalid(at, field.OmitValueType{}, "must be "+noun+", not a list"))
	case n.Kind == yaml.MappingNode:
		d.add(field.Invalid(at, field.OmitValueType{}, "must be "+noun+", not an object"))
	case noun == aQuantity:
		d.refuse(n, at, "must be "+noun+meantAmounts(n.Value))
	default:
		d.refuse(n, at, "must be "+noun)
	}
}

// refuse reports the problem of a scalar.
func (d *decoder) refuse(n *yaml.Node, at *field.Path, detail string) {
	if n.Tag == "!!str" {
		d.add(field.Invalid(at, n.Value, detail))
		return
	}
	d.add(field.Invalid(at, json.RawMessage(appendJSON(nil, n)), detail))
}

// amountSyntax tells a number with what may stand for a unit.
var amountSyntax = regexp.MustCompile(`^([0-9]+(?:\.[0-9]+)?)\s*([kKmMgGtTpPeE])(i?)(?:[bB]|[bB]ytes?)?$`)

// meantAmounts suggests quantities for one with a unit that Kubernetes does not have, as 64Gb.
func meantAmounts(written string) string {
	m := amountSyntax.FindStringSubmatch(strings.TrimSpace(written))
	if m == nil {
		return ""
	}
	amount := m[1] + strings.ToUpper(m[2])
	if m[3] != "" {
		return fmt.Sprintf(" (did you mean %q?)", amount+"i")
	}
	return fmt.Sprintf(" (did you mean %q or %q?)", amount+"i", strings.Replace(amount, "K", "k", 1))
}

// plausibleQuantity refuses amounts that only an attack has: to work with 1e100000000 takes minutes
// and gigabytes.
func plausibleQuantity(s string) bool {
	i := strings.LastIndexAny(s, "eE")
	exponent, err := strconv.Atoi(s[i+1:]) // fails for 1E, an exa
	return len(s) <= 64 && (i < 0 || err != nil || -30 <= exponent && exponent <= 30)
}

// maxAmount is the largest amount that the scheduler can count in thousandths.
const maxAmount int64 = math.MaxInt64 / 1000

// outOfRange says what is wrong with an amount that would overflow in the scheduler's arithmetic;
// "" where nothing is.
func outOfRange(q *resource.Quantity) string {
	switch {
	case q.CmpInt64(maxAmount) > 0:
		return fmt.Sprintf("is out of range: must be at most %d", maxAmount)
	case q.CmpInt64(-maxAmount) < 0:
		return fmt.Sprintf("is out of range: must be at least %d", -maxAmount)
	}
	return ""
}

var (
	// hugeAmount tells words that may be a quantity out of range: of 16 digits and more, those counted that a unit stands for,
	// or with an exponent.
	hugeAmount = regexp.MustCompile(`^[-+]?[0-9]*([0-9]{16}[.0-9]*[num]?|[0-9]{10}[.0-9]*[kKM]i?|[0-9]{7}[.0-9]*Gi?|[0-9]{4}[.0-9]*Ti?|` +
		`[.0-9]+([PE]i?|[eE][-+]?[0-9]+))$`)
	// hiddenLetter tells escapes of characters that need none and may be part of an amount, other than <, >, & and ', which
	// encoders hide from browsers.
	hiddenLetter = regexp.MustCompile(`\\u00(2[0-589a-fA-F]|3[0-9abdfABDF]|[4-7])`)
	// endsWord has what may stand before or after a value in JSON.
	endsWord = [256]bool{'"': true, ':': true, ',': true, '[': true, ']': true, '}': true, ' ': true, '\t': true, '\n': true, '\r': true}
)

// mayBeHuge reports whether JSON may contain a quantity out of range, or one like 1e100000000,
// which takes minutes and gigabytes to parse. A false positive only costs time.
func mayBeHuge(raw []byte) bool {
	if bytes.Contains(raw, []byte(`\u00`)) && hiddenLetter.Match(raw) {
		return true
	}
	for i := 0; i < len(raw); i++ {
		begin := i
		for i < len(raw) && !endsWord[raw[i]] {
			i++
		}
		if word := raw[begin:i]; len(word) > 1 && word[0] <= '9' && (len(word) > 15 || bytes.ContainsAny(word, "kKMGTPEe")) &&
			hugeAmount.Match(word) {
			return true
		}
	}
	return false
}
