package deletioncost

import (
	"cmp"
	"fmt"
)

// Annotation on a workload or a namespace asks for deletion costs. Its value is a Request.
const Annotation = "evenkeel.dev/deletion-cost"

// Request is what a cluster, a namespace or a workload asks for.
type Request string

const (
	// None asks for nothing: costs written before are removed.
	None Request = "none"
	// Spread asks that costs follow the pods' own topology spread constraints. A pod without any
	// needs none.
	Spread Request = "spread"
	// Zone is Spread for pods with constraints. Others are kept level over the zones of their nodes.
	Zone Request = "zone"
)

// ParseRequest reads the value of an annotation or a flag.
func ParseRequest(value string) (Request, error) {
	switch r := Request(value); r {
	case None, Spread, Zone:
		return r, nil
	}
	return None, fmt.Errorf("%q is not one of %s, %s and %s", value, Spread, Zone, None)
}

// Resolve returns what holds for a workload: its own annotation, or else that of its namespace, or
// else what the whole cluster asks for. An annotation that cannot be read asks for nothing, and the
// error says whose it is.
func Resolve(workload, namespace map[string]string, cluster Request) (Request, error) {
	whose := "the workload"
	value, asks := workload[Annotation]
	if !asks {
		whose = "its namespace"
		value, asks = namespace[Annotation]
	}
	if !asks {
		return cmp.Or(cluster, None), nil
	}
	r, err := ParseRequest(value)
	if err != nil {
		return None, fmt.Errorf("annotation %s of %s: %w", Annotation, whose, err)
	}
	return r, nil
}
