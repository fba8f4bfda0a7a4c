package document

import (
	"encoding/json"
	"errors"
)

// ToJSON parses a YAML document and writes it as JSON, for tests.
func ToJSON(data []byte) ([]byte, error) {
	value, err := parseYAML(data, 1)
	if err == nil && value == nil {
		err = errors.New("no value")
	}
	if err != nil {
		return nil, err
	}
	return appendJSON(nil, value), nil
}

// Rewrite parses JSON and writes it again, for tests.
func Rewrite(data []byte) ([]byte, error) {
	if !json.Valid(data) {
		return nil, errors.New("not one value")
	}
	return appendJSON(nil, treeOf(data, 1)), nil
}

// Size is how many bytes are held, for tests.
func (p *Packed) Size() (bytes int) {
	for _, piece := range p.pieces {
		bytes += len(piece)
	}
	return bytes
}
