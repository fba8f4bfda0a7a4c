package v1alpha1

import (
	"bytes"
	"encoding/json"
	"errors"
)

// SchedulerConfig is a KubeSchedulerConfiguration: the object itself, or the name of a file that
// holds it. At most one of the fields is set.
type SchedulerConfig struct {
	// File is the name of the file, as other files of the document are named.
	File string `json:"-"`
	// Object is the object.
	Object json.RawMessage `json:"-"`
}

// UnmarshalJSON reads an object, or a string that names a file.
func (c *SchedulerConfig) UnmarshalJSON(data []byte) error {
	data = bytes.TrimSpace(data)
	switch {
	case bytes.HasPrefix(data, []byte(`"`)):
		if err := json.Unmarshal(data, &c.File); err != nil || c.File != "" {
			return err
		}
	case bytes.HasPrefix(data, []byte("{")):
		c.Object = bytes.Clone(data)
		return nil
	}
	return errors.New("must be a KubeSchedulerConfiguration, or the name of a file that holds one")
}

// MarshalJSON writes what UnmarshalJSON reads.
func (c SchedulerConfig) MarshalJSON() ([]byte, error) {
	if len(c.Object) > 0 {
		return c.Object, nil
	}
	return json.Marshal(c.File)
}
