package document

import "errors"

// ToJSON parses a text of one value and writes it as JSON, for tests.
func ToJSON(data []byte) ([]byte, error) {
	values, err := parse(data, 1)
	if err != nil {
		return nil, err
	}
	if len(values) != 1 {
		return nil, errors.New("not one value")
	}
	return appendJSON(nil, values[0]), nil
}

// Rewrite parses JSON and writes it again, for tests.
func Rewrite(data []byte) ([]byte, error) {
	values, err := parseJSON(data, 1)
	if err != nil {
		return nil, err
	}
	if len(values) != 1 {
		return nil, errors.New("not one value")
	}
	return appendJSON(nil, values[0]), nil
}
