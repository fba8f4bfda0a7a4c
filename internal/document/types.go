package document

import (
	"cmp"
	"fmt"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/evenkeel/evenkeel/internal/spelling"
)

// structFields are the fields of a struct by their names in documents.
type structFields struct {
	byName map[string][]int // index paths, through embedded structs
	names  []string         // sorted
}

// known caches fieldsOf. What it holds follows from the types alone, so sharing it changes no
// answer.
var known sync.Map // reflect.Type to *structFields

func fieldsOf(t reflect.Type) *structFields {
	if f, ok := known.Load(t); ok {
		return f.(*structFields)
	}
	f := &structFields{byName: map[string][]int{}}
	f.collect(t, nil)
	for name := range f.byName {
		f.names = append(f.names, name)
	}
	slices.Sort(f.names)
	stored, _ := known.LoadOrStore(t, f)
	return stored.(*structFields)
}

// collect adds the fields of t, those of embedded structs without a name of their own as if they
// were its own.
func (f *structFields) collect(t reflect.Type, prefix []int) {
	for i := range t.NumField() {
		sf := t.Field(i)
		tag, _ := sf.Tag.Lookup("json")
		name, _, _ := strings.Cut(tag, ",")
		if tag == "-" || !sf.IsExported() && !sf.Anonymous {
			continue
		}
		at := append(slices.Clone(prefix), i)
		inner := sf.Type
		if inner.Kind() == reflect.Pointer {
			inner = inner.Elem()
		}
		if sf.Anonymous && name == "" && inner.Kind() == reflect.Struct {
			f.collect(inner, at)
			continue
		}
		name = cmp.Or(name, sf.Name)
		if old, ok := f.byName[name]; !ok || len(at) < len(old) {
			f.byName[name] = at
		}
	}
}

// anything is the noun of a type that takes any JSON.
const anything = "a value"

var (
	quantityType = reflect.TypeFor[resource.Quantity]()
	nouns        = map[reflect.Type]string{
		quantityType:                          "a quantity such as 500m, 2 or 4Gi",
		reflect.TypeFor[metav1.Time]():        "a time such as 2026-01-31T15:04:05Z",
		reflect.TypeFor[metav1.MicroTime]():   "a time such as 2026-01-31T15:04:05.000000Z",
		reflect.TypeFor[metav1.Duration]():    "a duration such as 90s or 1h30m",
		reflect.TypeFor[intstr.IntOrString](): "an integer or a string",
		jsonNumber:                            "a number",
	}
)

// nounOf names what a document must hold for a value of type t.
func nounOf(t reflect.Type) string {
	if noun, ok := nouns[t]; ok {
		return noun
	}
	if reflect.PointerTo(t).Implements(unmarshaler) {
		return anything
	}
	switch t.Kind() {
	case reflect.Pointer:
		return nounOf(t.Elem())
	case reflect.Struct, reflect.Map:
		return "an object"
	case reflect.Slice:
		return "a list"
	case reflect.Bool:
		return "true or false"
	case reflect.String:
		return "a string"
	case reflect.Float32, reflect.Float64:
		return "a number"
	default:
		return "an integer"
	}
}

func isQuantity(t reflect.Type) bool { return t == quantityType }

// amountSyntax tells a number with what may stand for a unit.
var amountSyntax = regexp.MustCompile(`^([0-9]+(?:\.[0-9]+)?)\s*([kKmMgGtTpPeE])(i?)(?:[bB]|[bB]ytes?)?$`)

// meantAmounts suggests quantities for one with a unit that Kubernetes does not have, as 64Gb.
func meantAmounts(written string) string {
	m := amountSyntax.FindStringSubmatch(strings.TrimSpace(written))
	if m == nil {
		return ""
	}
	number, unit := m[1], strings.ToUpper(m[2])
	if m[3] != "" {
		return fmt.Sprintf(" (did you mean %q?)", number+unit+"i")
	}
	return fmt.Sprintf(" (did you mean %q or %q?)", number+unit+"i", number+strings.Replace(unit, "K", "k", 1))
}

// plausibleQuantity refuses amounts that only an attack has: to work with 1e100000000 takes minutes
// and gigabytes.
func plausibleQuantity(s string) bool {
	if len(s) > 64 {
		return false
	}
	i := strings.LastIndexAny(s, "eE")
	if i < 0 || i == len(s)-1 {
		return true // 1E is an exa
	}
	exponent, err := strconv.Atoi(s[i+1:])
	return err != nil || -30 <= exponent && exponent <= 30
}

// maxAmount is the largest amount that the scheduler can count in thousandths.
const maxAmount = math.MaxInt64 / 1000

var (
	largestQuantity  = resource.NewQuantity(maxAmount, resource.DecimalSI)
	smallestQuantity = resource.NewQuantity(-maxAmount, resource.DecimalSI)
)

// outOfRange says what is wrong with an amount that would overflow in the scheduler's arithmetic;
// "" where nothing is.
func outOfRange(q *resource.Quantity) string {
	switch {
	case q.Cmp(*largestQuantity) > 0:
		return fmt.Sprintf("is out of range: must be at most %d", int64(maxAmount))
	case q.Cmp(*smallestQuantity) < 0:
		return fmt.Sprintf("is out of range: must be at least %d", int64(-maxAmount))
	}
	return ""
}

// suggest gives the name closest to what was written, or "" when none is close.
func suggest(written string, names []string) string {
	if near := spelling.Nearest(written, names); len(near) > 0 {
		return near[0]
	}
	return ""
}
