package zonalshift_test

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/zonalshift"
)

func TestMarksOfADocument(t *testing.T) {
	at := func(d time.Duration) *metav1.Time { return &metav1.Time{Time: start.Add(d)} }
	tests := map[string]struct {
		shifts []v1alpha1.DomainShift
		want   string // part of the only error; empty for none
	}{
		"none":           {nil, ""},
		"a zone":         {[]v1alpha1.DomainShift{{Name: "za", Since: at(0), Until: at(1), Reason: "power"}}, ""},
		"a zone, a rack": {[]v1alpha1.DomainShift{{Name: "za"}, {Name: "za", TopologyKey: "example.com/rack"}}, ""},
		"no name":        {[]v1alpha1.DomainShift{{Reason: "power"}}, "spec.shifts[0].name: Required value"},
		"twice":          {[]v1alpha1.DomainShift{{Name: "za"}, {Name: "za"}}, "spec.shifts[1].name: Duplicate value"},
		"a bad name":     {[]v1alpha1.DomainShift{{Name: "z a"}}, `spec.shifts[0].name: Invalid value: "z a"`},
		"a bad key":      {[]v1alpha1.DomainShift{{Name: "za", TopologyKey: "a b"}}, `spec.shifts[0].topologyKey: Invalid value: "a b"`},
		"ends before":    {[]v1alpha1.DomainShift{{Name: "za", Since: at(1), Until: at(1)}}, "spec.shifts[0].until: Invalid value"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			marks, errs := zonalshift.Marks(&v1alpha1.ZonalShift{Spec: v1alpha1.ZonalShiftSpec{Shifts: test.shifts}})
			switch {
			case test.want == "" && (len(errs) > 0 || len(marks) != len(test.shifts)):
				t.Errorf("%v %v", marks, errs)
			case test.want != "" && (len(errs) != 1 || marks != nil || !strings.Contains(errs[0].Error(), test.want)):
				t.Errorf("%v %v, want %s", marks, errs, test.want)
			}
		})
	}
}

func TestAnUnknownZoneIsNamedWithThoseThatExist(t *testing.T) {
	groups := threeZones(1, 1, 1)
	known := func(key string) []string { return zonalshift.Domains(key, groups) }
	for text, want := range map[string]string{
		"za":  "",
		"zzb": "unknown zone zzb: known are za, zb, zc (did you mean zb?)",
	} {
		err := zonalshift.Check([]zonalshift.Mark{zone("zc"), zone(text)}, known)
		if (err == nil) != (want == "") || err != nil && err.Error() != want {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
	rack := zonalshift.Mark{Domain: zonalshift.Domain{Key: "example.com/rack", Value: "r1"}}
	if err := zonalshift.Check([]zonalshift.Mark{rack}, known); err == nil ||
		err.Error() != "unknown example.com/rack r1: nothing has the label example.com/rack" {
		t.Errorf("got %v", err)
	}
}
