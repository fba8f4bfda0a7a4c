package backoff_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/evenkeel/evenkeel/backoff"
)

func Example() {
	start := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	b := backoff.New(backoff.Options{})
	for _, failed := range []time.Duration{0, 5 * time.Minute, 15 * time.Minute, 35 * time.Minute} {
		b.Failed("spot-a", "out of stock", start.Add(failed))
		until, reason, _ := b.Active("spot-a", start.Add(failed))
		fmt.Printf("%s until %s\n", reason, until.Format(time.TimeOnly))
	}
	// Output:
	// out of stock until 12:05:00
	// out of stock until 12:15:00
	// out of stock until 12:35:00
	// out of stock until 13:05:00
}

func TestBackoffDoublesAndForgets(t *testing.T) {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	at := start.Add
	tests := map[string]struct {
		failures []time.Duration // since the start
		until    time.Duration
	}{
		"first failure":                  {[]time.Duration{0}, 5 * time.Minute},
		"second after expiry doubles":    {[]time.Duration{0, 5 * time.Minute}, 15 * time.Minute},
		"failure while backed off keeps": {[]time.Duration{0, time.Minute}, 6 * time.Minute},
		"doubling ends at the maximum": {[]time.Duration{0, 5 * time.Minute, 15 * time.Minute, 35 * time.Minute, 65 * time.Minute},
			95 * time.Minute},
		"forgotten after three quiet hours":   {[]time.Duration{0, 5 * time.Minute, 3*time.Hour + 6*time.Minute}, 3*time.Hour + 11*time.Minute},
		"remembered up to three quiet hours":  {[]time.Duration{0, 3 * time.Hour}, 3*time.Hour + 10*time.Minute},
		"failure exactly at the end of a ban": {[]time.Duration{0, 5 * time.Minute, 15 * time.Minute}, 35 * time.Minute},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			b := backoff.New(backoff.Options{})
			for _, failure := range test.failures {
				b.Failed("a", "out of stock", at(failure))
			}
			if until, reason, active := b.Active("a", at(test.until-1)); !active || !until.Equal(at(test.until)) || reason != "out of stock" {
				t.Errorf("just before the end: until %v (%q, %v), want %v", until.Sub(start), reason, active, test.until)
			}
			if _, _, active := b.Active("a", at(test.until)); active {
				t.Error("still backed off at the end")
			}
			first := at(0)
			if last := test.failures[len(test.failures)-1]; len(test.failures) > 1 &&
				last-test.failures[len(test.failures)-2] > backoff.DefaultReset {
				first = at(last)
			}
			if got := b.Failure("a").First; !got.Equal(first) {
				t.Errorf("first failed at %v, want %v", got, first)
			}
			if _, _, active := b.Active("b", at(0)); active {
				t.Error("another group is backed off")
			}
		})
	}
}
