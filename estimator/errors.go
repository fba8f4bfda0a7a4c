package estimator

import "errors"

// ErrInvalidPhase is returned for a Phase that cannot be estimated: its template has no node, a
// number is negative, or it reuses a phase that does not come before it.
var ErrInvalidPhase = errors.New("invalid estimation phase")
