package federation

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
)

// Revision is a hash of all that a spec says about the content of local objects. The order of fields
// and white space do not matter.
func Revision(spec *v1alpha1.FederatedReplicaSetSpec) string {
	hash := sha256.New()
	for _, part := range []any{spec.LocalKind, spec.Selector, spec.Template.Metadata, canonical(spec.Template.Spec.Raw)} {
		text, _ := json.Marshal(part) // of strings, maps and numbers: it cannot fail
		hash.Write(append(text, 0))
	}
	return hex.EncodeToString(hash.Sum(nil)[:8])
}

// canonical is a JSON text as a value; text that is not JSON stays text.
func canonical(text []byte) any {
	var value any
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber() // large numbers differ in their last digits
	if err := decoder.Decode(&value); err != nil {
		return string(text)
	}
	return value
}
