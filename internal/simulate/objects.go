package simulate

import (
	"bytes"
	"encoding/json"
	"io"
	"slices"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
)

// inlineObjects represents spec.objects among the files.
const inlineObjects = "spec.objects"

// takeObjects makes the objects of the document readable as a file that is named in all lists of
// files.
func (l *loader) takeObjects() {
	if len(l.spec.Objects) == 0 {
		return
	}
	list := []byte(`{"apiVersion":"v1","kind":"List","items":[`)
	list = append(list, bytes.Join(asBytes(l.spec.Objects), []byte(","))...)
	list = append(list, "]}"...)
	open := l.files.Open
	l.files.Open = func(name string) (io.ReadCloser, error) {
		if name == inlineObjects {
			return inMemory{bytes.NewReader(list)}, nil
		}
		return open(name)
	}
	spec, source := *l.spec, v1alpha1.FileSource{File: inlineObjects}
	spec.NodesFrom = append(slices.Clip(spec.NodesFrom), source)
	spec.PodsFrom = append(slices.Clip(spec.PodsFrom), v1alpha1.PodsSource{FileSource: source})
	spec.DaemonSetsFrom = append(slices.Clip(spec.DaemonSetsFrom), source)
	l.spec = &spec
}

// inMemory is a file in memory.
type inMemory struct{ *bytes.Reader }

// Close implements io.Closer.
func (inMemory) Close() error { return nil }

func asBytes(all []json.RawMessage) [][]byte {
	out := make([][]byte, len(all))
	for i, raw := range all {
		out[i] = raw
	}
	return out
}
