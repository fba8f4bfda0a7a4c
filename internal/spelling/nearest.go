package spelling

import (
	"cmp"
	"slices"
	"strings"
)

const mostSuggestions = 3

// Nearest returns the names most similar to the given one: those with the fewest changed letters,
// if no more than half of the letters change. It returns at most three, those with a longer common
// prefix first.
func Nearest(written string, names []string) []string {
	best := len(written)/2 + 1
	var out []string
	for _, name := range names {
		switch d := distance(strings.ToLower(written), strings.ToLower(name)); {
		case d < best:
			best, out = d, []string{name}
		case d == best && len(out) > 0:
			out = append(out, name)
		}
	}
	slices.SortFunc(out, func(a, b string) int { return cmp.Or(prefix(written, b)-prefix(written, a), strings.Compare(a, b)) })
	return out[:min(len(out), mostSuggestions)]
}

// prefix is the length of the common prefix of two names in bytes.
func prefix(a, b string) int {
	n := 0
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return n
}

// distance is the number of letters to insert, remove or replace to change one word into the other
// (Levenshtein). Words of more than a hundred letters are not compared.
func distance(a, b string) int {
	if len(a) > 100 {
		return len(a)
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replaced := diagonal
			if a[i] != b[j] {
				replaced++
			}
			diagonal = row[j+1]
			row[j+1] = min(replaced, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
