package document

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/big"
	"regexp"
	"strings"
)

// Bounds of a text. Documents are flat; whatever needs more is a mistake or an attack.
const (
	maxDepth  = 200     // nesting of lists and objects
	maxShared = 100_000 // values that aliases may add to those written down
)

// kind is what a value is in JSON.
type kind int

const (
	null kind = iota
	boolean
	number
	text
	list
	object
)

// A value is a piece of a document after parsing, the same for YAML and JSON. Numbers stay text, so
// that none loses a digit.
type value struct {
	kind    kind
	text    string // content of a text, JSON literal of a number or boolean
	written string // what stands in the input where it differs from text
	plain   bool   // a text without quotes: YAML 1.1 could mean a boolean
	members []member
	items   []*value
	line    int
	size    int // number of values in it, itself included and aliases counted as often as they are used
	height  int // levels below it
}

// A member is one field of an object, in the order of the input.
type member struct {
	key   string
	line  int
	value *value
}

// get returns the last member of that name, or nil.
func (v *value) get(key string) *value {
	for i := len(v.members) - 1; i >= 0; i-- {
		if v.members[i].key == key {
			return v.members[i].value
		}
	}
	return nil
}

// source is the scalar as it was written.
func (v *value) source() string {
	if v.written != "" {
		return v.written
	}
	return v.text
}

// appendJSON appends the value as JSON, members in their order.
func (v *value) appendJSON(b []byte) []byte {
	switch v.kind {
	case null:
		return append(b, "null"...)
	case boolean, number:
		return append(b, v.text...)
	case text:
		return appendString(b, v.text)
	case list:
		b = append(b, '[')
		for i, item := range v.items {
			if i > 0 {
				b = append(b, ',')
			}
			b = item.appendJSON(b)
		}
		return append(b, ']')
	default:
		b = append(b, '{')
		for i, m := range v.members {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(appendString(b, m.key), ':')
			b = m.value.appendJSON(b)
		}
		return append(b, '}')
	}
}

// appendString quotes s as JSON does.
func appendString(b []byte, s string) []byte {
	quoted, err := encode(s)
	if err != nil {
		return append(b, `""`...) // a string always encodes
	}
	return append(b, quoted...)
}

// encode is v as JSON, with <, > and & left readable.
func encode(v any) ([]byte, error) {
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return bytes.TrimRight(out.Bytes(), "\n"), err
}

// literal is JSON's form of a number as YAML 1.1 and 1.2 write it: hexadecimal, octal, binary, with
// underscores, a leading plus or a bare point. It fails for what JSON has no number for.
func literal(written string) (string, error) {
	if isNumber(written) {
		return written, nil
	}
	s := strings.TrimPrefix(strings.ReplaceAll(written, "_", ""), "+")
	if isInteger(s) || strings.ContainsAny(s, "xXoObB") {
		if i, ok := new(big.Int).SetString(s, 0); ok {
			return i.String(), nil
		}
	}
	sign, digits := "", s
	if rest, negative := strings.CutPrefix(s, "-"); negative {
		sign, digits = "-", rest
	}
	if strings.HasPrefix(digits, ".") {
		digits = "0" + digits
	}
	digits = pointWithoutDigits.ReplaceAllString(digits, "$1")
	if trimmed := strings.TrimLeft(digits, "0"); len(trimmed) < len(digits) {
		digits = "0" + trimmed
		if trimmed != "" && trimmed[0] >= '1' && trimmed[0] <= '9' {
			digits = trimmed
		}
	}
	if s = sign + digits; isNumber(s) {
		return s, nil
	}
	return "", fmt.Errorf("%s is not a number that JSON can carry", written)
}

var (
	numberSyntax       = regexp.MustCompile(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?$`)
	integerSyntax      = regexp.MustCompile(`^-?[0-9]+$`)
	pointWithoutDigits = regexp.MustCompile(`\.($|[eE])`)
)

// leadingZero tells numbers that YAML 1.1 takes for octal and YAML 1.2 for decimal.
var leadingZero = regexp.MustCompile(`^[-+]?0_*[0-9][0-9_]*(\.|$)`)

// otherReadings says how different parsers read a number with leading zeros.
func otherReadings(v *value) string {
	decimal, ok := new(big.Int).SetString(strings.ReplaceAll(v.written, "_", ""), 10)
	if !ok || decimal.String() == v.text {
		return "octal to some parsers and decimal to others"
	}
	return fmt.Sprintf("%s to some parsers and %s to others", v.text, decimal)
}

func isNumber(s string) bool  { return numberSyntax.MatchString(s) }
func isInteger(s string) bool { return integerSyntax.MatchString(s) }
