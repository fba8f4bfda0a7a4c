package document

import "bytes"

// safeDigits is the number of digits before the point with which an amount is certainly in range.
const safeDigits = 15

// mayBeHuge reports whether JSON may contain a quantity out of range, or one like 1e100000000,
// which takes minutes and gigabytes to parse. A false positive only costs time.
func mayBeHuge(raw []byte) bool {
	if bytes.Contains(raw, []byte(`\u00`)) && hidesLetters(raw) {
		return true
	}
	for i := 0; i < len(raw); {
		if !startsAmount(raw[i]) {
			i++
			continue
		}
		if i > 0 && !endsWord(raw[i-1]) { // the rest of a word is not an amount
			i = wordEnd(raw, i)
			continue
		}
		end := wordEnd(raw, i)
		if hugeWord(raw[i:end]) {
			return true
		}
		i = end
	}
	return false
}

// hugeWord reports whether a word is an amount that may be out of range: a number of many digits,
// with its suffix counted as the digits it stands for.
func hugeWord(word []byte) bool {
	word = bytes.TrimLeft(word, "+-0")
	digits := 0
	for digits < len(word) && isDigit(word[digits]) {
		digits++
	}
	suffix := bytes.TrimLeft(word[digits:], ".0123456789")
	if len(suffix) == 0 {
		return digits > safeDigits
	}
	power := bytes.IndexByte([]byte("kMGTPE"), suffix[0]) + 1
	if suffix[0] == 'K' {
		power = 1
	}
	exponent := suffix[0] == 'e' || suffix[0] == 'E'
	switch {
	case exponent && len(suffix) > 1 && suffix[1] != 'i':
		return isExponent(suffix[1:])
	case len(suffix) > 2 || len(suffix) == 2 && suffix[1] != 'i':
		return false
	}
	return digits+3*power > safeDigits
}

// isExponent reports whether it is one that makes more digits than are safe, by its own number of
// digits.
func isExponent(b []byte) bool {
	b = bytes.TrimLeft(b, "+-")
	for _, c := range b {
		if !isDigit(c) {
			return false
		}
	}
	return len(b) > 0
}

// hidesLetters reports whether JSON escapes characters that need no escape and may be part of
// amounts.
func hidesLetters(raw []byte) bool {
	for {
		i := bytes.Index(raw, []byte(`\u00`))
		if i < 0 || i+6 > len(raw) {
			return false
		}
		switch string(bytes.ToLower(raw[i+4 : i+6])) {
		case "3c", "3e", "26", "27": // <, >, & and ', which encoders hide from browsers
		default:
			if raw[i+4] >= '2' && raw[i+4] <= '7' {
				return true
			}
		}
		raw = raw[i+6:]
	}
}

func startsAmount(b byte) bool { return isDigit(b) || b == '+' || b == '-' || b == '.' }

// endsWord reports whether a character may stand before or after a value in JSON.
func endsWord(b byte) bool {
	return b == '"' || b == ':' || b == ',' || b == '[' || b == ']' || b == '}' || b == ' ' || b == '\t' || b == '\n' || b == '\r'
}

func wordEnd(raw []byte, i int) int {
	for i < len(raw) && !endsWord(raw[i]) {
		i++
	}
	return i
}

func isDigit(b byte) bool { return '0' <= b && b <= '9' }
