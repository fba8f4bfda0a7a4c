package apportion

import "testing"

func TestInvalidError(t *testing.T) {
	for want, err := range map[string]error{
		`targets[2].name: Invalid value: "": must not be empty`: Invalid("targets[2].name", "", "must not be empty"),
		"n: Invalid value: -1: must not be negative":            Invalid("n", -1, "must not be negative"),
		`invalid value: "2": must be between 0 and 1`:           Invalid("", "2", "must be between 0 and 1"),
	} {
		if got := err.Error(); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}
