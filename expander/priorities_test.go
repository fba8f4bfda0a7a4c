package expander

import (
	"strings"
	"testing"
)

const configMap = `
apiVersion: v1
kind: ConfigMap
metadata:
  name: cluster-autoscaler-priority-expander
  namespace: kube-system
data:
  priorities: |-
    10:
      - .*t2\.large.*
      - .*t3\.large.*
    50:
      - .*m4\.4xlarge.*
`

func TestParsePriorities(t *testing.T) {
	const bare = "10:\n- .*t2\\.large.*\n- .*t3\\.large.*\n50:\n- .*m4\\.4xlarge.*\n"
	for name, text := range map[string]string{
		"config map": configMap,
		"bare text":  bare,
		"json":       `{"10": [".*t2\\.large.*", ".*t3\\.large.*"], "50": [".*m4\\.4xlarge.*"]}`,
		"alias":      "10: &ten ['.*t2\\.large.*', '.*t3\\.large.*']\n5: *ten\n0x32: ['.*m4\\.4xlarge.*']",
	} {
		p, err := ParsePriorities([]byte(text))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for group, want := range map[string]Match{
			"asg-t2.large-a": {10, `.*t2\.large.*`}, "t3.large": {10, `.*t3\.large.*`}, "m4.4xlarge": {50, `.*m4\.4xlarge.*`}, "m5.large": {},
		} {
			if got, ok := p.Match(group); got != want || ok != (want.Rule != "") {
				t.Errorf("%s: %s: got %+v, %v", name, group, got, ok)
			}
		}
	}
	if p := (Priorities{}); !p.Empty() {
		t.Error("the zero value is not empty")
	}
}

func TestParsePrioritiesRefuses(t *testing.T) {
	for _, test := range []struct{ text, err string }{
		{"", "priorities: Required value: must not be empty"},
		{"# nothing\n", "priorities: Required value: must not be empty"},
		{"{}", "priorities: Required value: must not be empty"},
		{"[a]", `priorities: Invalid value: "a list of 1": must be a map from priorities to lists of regular expressions`},
		{"text", `priorities: Invalid value: "text": must be a map from priorities to lists of regular expressions`},
		{"10: [a]\n---\n20: [b]", `priorities: Invalid value: "": must be a single YAML document`},
		{"10: [a", `priorities: Invalid value: "": yaml: line 1: did not find expected ',' or ']'`},
		{"high: [a]", `priorities[high]: Invalid value: "high": a priority must be a whole number`},
		{"1.5: [a]", `priorities[1.5]: Invalid value: "1.5": a priority must be a whole number`},
		{"99999999999999999999: [a]",
			`priorities[99999999999999999999]: Invalid value: "99999999999999999999": a priority must be a whole number`},
		{"~: [a]", `priorities[~]: Invalid value: "~": a priority must be a whole number`},
		{"[a, b]: [a]", `priorities[]: Invalid value: "a list of 2": a priority must be a whole number`},
		{"-1: [a]", `priorities[-1]: Invalid value: -1: a priority must not be negative`},
		{"10: [a]\n'10': [b]", `priorities[10]: Duplicate value: 10`},
		{"10: a", `priorities[10]: Invalid value: "a": must be a list of regular expressions`},
		{"10: {a: b}", `priorities[10]: Invalid value: "a map": must be a list of regular expressions`},
		{"10: [ok, '(']", "priorities[10][1]: Invalid value: \"(\": error parsing regexp: missing closing ): `(`"},
		{"10: [ok, ~]", `priorities[10][1]: Invalid value: "~": must be a regular expression`},
		{"10: [[a]]", `priorities[10][0]: Invalid value: "a list of 1": must be a regular expression`},
		{"a: [x]\n10: ['(?!b)']",
			"[priorities[a]: Invalid value: \"a\": a priority must be a whole number, priorities[10][0]: Invalid value: " +
				"\"(?!b)\": error parsing regexp: invalid or unsupported Perl syntax: `(?!`]"},
		{strings.Repeat(" ", maxPrioritiesSize+1), "priorities: Too long: may not be more than 1048576 bytes"},
		{"kind: Secret\ndata: {priorities: '10: [a]'}", `kind: Invalid value: "Secret": must be ConfigMap`},
		{"data: {priorities: '10: [a]'}", `kind: Invalid value: "": must be ConfigMap`},
		{"kind: ConfigMap", `data.priorities: Required value: the priorities, as YAML text`},
		{"kind: ConfigMap\ndata: {priorities: {10: [a]}}", `data.priorities: Required value: the priorities, as YAML text`},
		{"kind: ConfigMap\ndata: {priorities: ''}", `data.priorities: Required value: must not be empty`},
		{"kind: ConfigMap\ndata: {priorities: '10: [a, \"*\"]'}",
			"data.priorities[10][1]: Invalid value: \"*\": error parsing regexp: missing argument to repetition operator: `*`"},
	} {
		_, err := ParsePriorities([]byte(test.text))
		if err == nil || err.Error() != test.err {
			t.Errorf("%.60q:\ngot  %v\nwant %s", test.text, err, test.err)
		}
	}
}

// A small text must not stand for gigabytes of expressions.
func TestPriorityAliasesAreBounded(t *testing.T) {
	var b strings.Builder
	b.WriteString("0: &x [" + strings.Repeat("a,", 20_000) + "a]\n")
	for i := range 1000 {
		b.WriteString(strings.Repeat("1", 1+i%15) + strings.Repeat("2", i/15) + ": *x\n")
	}
	if _, err := ParsePriorities([]byte(b.String())); err == nil || !strings.Contains(err.Error(), "Too long") {
		t.Errorf("got %.200v", err)
	}
}

func FuzzParsePriorities(f *testing.F) {
	for _, seed := range []string{
		configMap, "10: [a, b]\n20: ['^c$']", "", "10: [(]", "-1: [a]", "1: &a [x]\n2: *a", "{1: [a], 1: [b]}", "&a 1: [*a]",
		"kind: ConfigMap\ndata: {priorities: '1: [a]'}",
		"? [a]\n: b", "1: !!binary [a]", "<<: {1: [a]}", "---\n...\n---", "0b11: [a]", "1_0: [a]",
	} {
		f.Add([]byte(seed), "group-a")
	}
	f.Fuzz(func(t *testing.T, data []byte, group string) {
		if len(data) > 1<<12 { // expressions grow with what they repeat
			return
		}
		p, err := ParsePriorities(data)
		if err != nil {
			if !p.Empty() {
				t.Fatalf("priorities in spite of %v", err)
			}
			return
		}
		if p.Empty() {
			t.Fatalf("%q: no error and no priorities", data)
		}
		m, ok := p.Match(group)
		if again, ok2 := p.Match(group); again != m || ok2 != ok || m.Priority < 0 {
			t.Fatalf("matched %+v, then %+v", m, again)
		}
		for i := 1; i < len(p.levels); i++ {
			if p.levels[i-1].priority <= p.levels[i].priority {
				t.Fatal("levels out of order")
			}
		}
	})
}
