package spelling

import (
	"fmt"
	"strings"
)

// Count writes a number with its noun.
func Count[N int | int32 | int64](n N, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// Verb is what so many things do.
func Verb(n int, plural string) string {
	if n == 1 {
		return plural + "s"
	}
	return plural
}

// List names the first few, and counts the rest.
func List(names []string, few int) string {
	if len(names) <= few {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:few], ", "), len(names)-few)
}

// Few is List, but names the last one too rather than counting one.
func Few(names []string, few int) string {
	if len(names) == few+1 {
		few++
	}
	return List(names, few)
}

// Or lists alternatives, at least two.
func Or(names []string) string {
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " or " + names[last]
}
