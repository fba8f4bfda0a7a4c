package charts

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// The table of values is between these lines of the page.
const (
	begin = "<!-- values: generated from values.yaml by make generate -->\n"
	end   = "<!-- end of values -->\n"
)

// Page returns the page about the chart with its table of values replaced by that of a values.yaml.
func Page(page string, values []byte) (string, error) {
	all, err := parse(values)
	if err != nil {
		return "", err
	}
	before, rest, found := strings.Cut(page, begin)
	_, after, ended := strings.Cut(rest, end)
	if !found || !ended {
		return "", errors.New("the page has no place for the values")
	}
	var b strings.Builder
	b.WriteString("\n")
	var top []value
	for _, v := range all {
		if v.fields == nil {
			top = append(top, v)
		}
	}
	if err := table(&b, top, ""); err != nil {
		return "", err
	}
	for _, v := range all {
		if v.fields == nil {
			continue
		}
		fmt.Fprintf(&b, "### %s\n\n%s\n\n", v.name, v.description)
		if err := table(&b, v.fields, v.name+"."); err != nil {
			return "", err
		}
	}
	return before + begin + b.String() + end + after, nil
}

// table writes a row for each value, and for those within it.
func table(b *strings.Builder, values []value, under string) error {
	b.WriteString("| value | default | meaning |\n|---|---|---|\n")
	if err := rows(b, values, under); err != nil {
		return err
	}
	b.WriteString("\n")
	return nil
}

func rows(b *strings.Builder, values []value, under string) error {
	for _, v := range values {
		if v.fields != nil {
			if err := rows(b, v.fields, under+v.name+"."); err != nil {
				return err
			}
			continue
		}
		var byDefault any
		if err := v.node.Decode(&byDefault); err != nil {
			return fmt.Errorf("%s%s: %w", under, v.name, err)
		}
		text, err := json.Marshal(byDefault)
		if err != nil {
			return fmt.Errorf("%s%s: %w", under, v.name, err)
		}
		if len(text) > 80 {
			text = []byte("see values.yaml")
		}
		fmt.Fprintf(b, "| `%s%s` | `%s` | %s |\n", under, v.name, text, strings.ReplaceAll(v.description, "|", `\|`))
	}
	return nil
}
