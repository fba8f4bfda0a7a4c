package charts

import (
	"strings"
	"testing"
)

// TestSchema: types are those of the defaults, comments are descriptions, and rules are added.
func TestSchema(t *testing.T) {
	got, err := Schema([]byte(`# What is first.
first:
  # How many
  # there are.
  # @schema {minimum: 1}
  count: 2
  # Whatever.
  # @schema {additionalProperties: true}
  open: {}
  # A switch.
  on: false
# Names.
# @schema {items: {type: string}}
names: []
`))
	if err != nil {
		t.Fatal(err)
	}
	want := `{
  "$schema": "https://json-schema.org/draft-07/schema#",
  "additionalProperties": false,
  "properties": {
    "first": {
      "additionalProperties": false,
      "description": "What is first.",
      "properties": {
        "count": {
          "description": "How many there are.",
          "minimum": 1,
          "type": "integer"
        },
        "on": {
          "description": "A switch.",
          "type": "boolean"
        },
        "open": {
          "additionalProperties": true,
          "description": "Whatever.",
          "type": "object"
        }
      },
      "type": "object"
    },
    "global": {
      "type": "object"
    },
    "names": {
      "description": "Names.",
      "items": {
        "type": "string"
      },
      "type": "array"
    }
  },
  "title": "Values of the chart evenkeel",
  "type": "object"
}
`
	if string(got) != want {
		t.Errorf("got\n%s", got)
	}
}

func TestSchemaRefuses(t *testing.T) {
	for values, want := range map[string]string{
		"- a\n":       "must be a mapping",
		"a: {b: 1}\n": "a.b: a comment must say what it is",
		"# What.\n# @schema {minimum: ]}\na: 1\n": "a: the rules: ",
	} {
		if _, err := Schema([]byte(values)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", values, err, want)
		}
	}
}

func TestPage(t *testing.T) {
	got, err := Page("# Top\n"+begin+"old\n"+end+"after\n", []byte("# A | b.\na: \"\"\n# Group.\ng:\n  # One.\n  one: [x]\n"))
	if err != nil {
		t.Fatal(err)
	}
	want := "# Top\n" + begin + "\n| value | default | meaning |\n|---|---|---|\n| `a` | `\"\"` | A \\| b. |\n\n" +
		"### g\n\nGroup.\n\n| value | default | meaning |\n|---|---|---|\n| `g.one` | `[\"x\"]` | One. |\n\n" + end + "after\n"
	if got != want {
		t.Errorf("got\n%s", got)
	}
	if _, err := Page("no place", nil); err == nil {
		t.Error("a page without a place for the table is accepted")
	}
}
