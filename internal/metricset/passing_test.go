package metricset_test

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/evenkeel/evenkeel/internal/metricset"
)

// A scrape at any time while gauges are shown anew finds what stays.
func TestWhatStaysIsInEachScrape(t *testing.T) {
	set, registry := metricset.New("ships_"), prometheus.NewRegistry()
	begun, scrapes := false, 0
	docked := metricset.NewPassing(set, "docked", "1 for each ship in the port.", func(ship string) []string {
		if begun {
			scrapes++
			if n, err := testutil.GatherAndCount(registry); n < 2 || err != nil {
				t.Errorf("%d ships, %v", n, err)
			}
		}
		return []string{ship}
	}, "ship")
	if err := set.Register(registry); err != nil {
		t.Fatal(err)
	}
	docked.Show(map[string]float64{"fram": 1, "belgica": 1, "gauss": 1})
	begun = true
	docked.Show(map[string]float64{"fram": 1, "belgica": 1})
	if scrapes != 3 {
		t.Errorf("%d scrapes", scrapes)
	}
}
