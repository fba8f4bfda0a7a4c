package estimator

import "errors"

// ErrInvalidRequest is returned for a Request that cannot be estimated: its template has no node, a
// demand has no pod or a negative count.
var ErrInvalidRequest = errors.New("invalid estimation request")
