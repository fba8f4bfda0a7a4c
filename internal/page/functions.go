package page

import (
	"cmp"
	"fmt"
	"html/template"
	"regexp"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/duration"
)

// functions are those of the template.
var functions = template.FuncMap{
	"at": at, "ago": ago, "difference": difference, "names": names, "sets": sets, "natural": sorted, "has": has, "domain": domain,
}

// has reports whether a state has a field, also if that is empty.
func has(values map[string]any, field string) bool {
	_, found := values[field]
	return found
}

// domain names a failure domain.
func domain(key, name string) string {
	if key == v1.LabelTopologyZone {
		key = "zone"
	}
	return key + " " + name
}

// at formats a time; none is an empty string.
func at(value any) string {
	t, known := parsed(value)
	if !known {
		return ""
	}
	return t.UTC().Format("2006-01-02 15:04:05")
}

func parsed(value any) (t time.Time, known bool) {
	text, _ := value.(string)
	t, err := time.Parse(time.RFC3339, text)
	return t, err == nil && !t.IsZero()
}

// ago formats how long a time is before another.
func ago(value, now any) string {
	t, _ := parsed(value)
	until, _ := parsed(now)
	return duration.HumanDuration(max(0, until.Sub(t))) + " ago"
}

func names(all []any) string {
	var out []string
	for _, name := range all {
		out = append(out, fmt.Sprint(name))
	}
	return strings.Join(out, ", ")
}

// difference describes how two groups differ.
func difference(d map[string]any) string {
	side := func(key string) any {
		value, found := d[key]
		switch {
		case !found:
			return "missing"
		case value == "":
			return `""`
		}
		return value
	}
	text := fmt.Sprintf("%v: %v and %v", d["field"], side("left"), side("right"))
	if ratio, found := d["ratio"]; found {
		return fmt.Sprintf("%s differ by %v, the limit is %v", text, ratio, d["limit"])
	}
	return text
}

// set is a set of groups as a part of the table.
type set struct {
	Name   string // empty for groups that are in no set
	Groups []any
	Size   int64
}

// sets sorts groups and sets in natural order. Groups in no set come last.
func sets(groups []any) []set {
	var all []set
	index := map[string]int{}
	for _, g := range sorted(groups, "name") {
		group, _ := g.(map[string]any)
		name, _ := group["set"].(string)
		i, known := index[name]
		if !known {
			i, index[name] = len(all), len(all)
			all = append(all, set{Name: name})
		}
		size, _ := group["size"].(int64)
		all[i].Groups = append(all[i].Groups, g)
		all[i].Size += size
	}
	slices.SortStableFunc(all, func(a, b set) int {
		switch {
		case (a.Name == "") == (b.Name == ""):
			return 0
		case a.Name == "":
			return 1
		}
		return -1
	})
	return all
}

// sorted sorts values in the natural order of one of their fields.
func sorted(all []any, field string) []any {
	key := func(of any) string {
		values, _ := of.(map[string]any)
		text, _ := values[field].(string)
		return text
	}
	all = slices.Clone(all)
	slices.SortStableFunc(all, func(a, b any) int { return natural(key(a), key(b)) })
	return all
}

var number = regexp.MustCompile("[0-9]+")

// natural compares names, and numbers in them by their values: ng-2 comes before ng-10.
func natural(a, b string) int {
	sortable := func(name string) string {
		return number.ReplaceAllStringFunc(name, func(digits string) string {
			digits = strings.TrimLeft(digits, "0")
			return strings.Repeat("0", max(0, 64-len(digits))) + digits
		})
	}
	return cmp.Or(strings.Compare(sortable(a), sortable(b)), strings.Compare(a, b))
}
