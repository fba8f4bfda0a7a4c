package cluster

import (
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// ErrStale is returned by Save when what was loaded is not what is stored: it was written or
// removed by somebody else since, was never loaded, or the leadership has changed hands since.
// Nothing was written. Load again, then decide again.
var ErrStale = errors.New("the journal must be loaded again")

// explained says what could not be done and, where rights are missing, which and what to do about
// it.
func explained(err error, verb, object string) error {
	return explain(err, verb, object, "configs/sidecar/rbac")
}

// explain is explained for those whose rights are in other manifests.
func explain(err error, verb, object, manifests string) error {
	switch {
	case err == nil:
		return nil
	case apierrors.IsForbidden(err):
		return fmt.Errorf("no right to %s %s: apply %s or grant it to the service account of the pod: %w", verb, object, manifests, err)
	case apierrors.IsUnauthorized(err):
		return fmt.Errorf("the API server does not accept the credentials used to %s %s: check the kubeconfig or the service account's token: %w",
			verb, object, err)
	default:
		return fmt.Errorf("cannot %s %s: %w", verb, object, err)
	}
}
