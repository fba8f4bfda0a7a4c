package spelling

import (
	"testing"

	"pgregory.net/rapid"
)

func TestDistanceIsAMetric(t *testing.T) {
	word := rapid.StringMatching(`[ab-]{0,6}`)
	rapid.Check(t, func(t *rapid.T) {
		a, b, c := word.Draw(t, "a"), word.Draw(t, "b"), word.Draw(t, "c")
		if d := distance(a, b); d != distance(b, a) || (d == 0) != (a == b) || d > distance(a, c)+distance(c, b) {
			t.Fatalf("distance(%q, %q) = %d", a, b, d)
		}
	})
}
