package externalgrpc

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/evenkeel/evenkeel/cloudprovider"
)

const (
	// errorDomain marks the details that name a sentinel error.
	errorDomain = "cloudprovider.evenkeel"
	// maxErrorText bounds the bytes of an error's text on the wire, where it
	// travels in a header.
	maxErrorText = 4096
)

// wireErrors pairs each sentinel error with its code and its name on the wire. An error that
// matches several of them is the first.
var wireErrors = [...]struct {
	err    error
	code   codes.Code
	reason string
}{
	{cloudprovider.ErrNotImplemented, codes.Unimplemented, "NOT_IMPLEMENTED"},
	{cloudprovider.ErrNotFound, codes.NotFound, "NOT_FOUND"},
	{cloudprovider.ErrInvalidDelta, codes.InvalidArgument, "INVALID_DELTA"},
	{cloudprovider.ErrAboveMax, codes.OutOfRange, "ABOVE_MAX"},
	{cloudprovider.ErrBelowMin, codes.FailedPrecondition, "BELOW_MIN"},
	{cloudprovider.ErrNotInGroup, codes.InvalidArgument, "NOT_IN_GROUP"},
	{cloudprovider.ErrOutOfResources, codes.ResourceExhausted, "OUT_OF_RESOURCES"},
	{cloudprovider.ErrQuotaExceeded, codes.ResourceExhausted, "QUOTA_EXCEEDED"},
	{cloudprovider.ErrUnavailable, codes.Unavailable, "UNAVAILABLE"},
}

// toStatus translates an error of a provider for the wire.
func toStatus(err error) error {
	if err == nil {
		return nil
	}
	text := strings.ToValidUTF8(err.Error()[:min(len(err.Error()), maxErrorText)], "")
	for _, w := range wireErrors {
		if !errors.Is(err, w.err) {
			continue
		}
		s, detailErr := status.New(w.code, text).WithDetails(&errdetails.ErrorInfo{Domain: errorDomain, Reason: w.reason})
		if detailErr != nil {
			return status.Error(w.code, text)
		}
		return s.Err()
	}
	return status.Error(status.FromContextError(err).Code(), text)
}

// fromStatus translates the status of a call over the wire.
func fromStatus(ctx context.Context, method string, err error) error {
	if err == nil {
		return nil
	}
	if done := ctx.Err(); done != nil {
		return fmt.Errorf("external cloud provider: %s: %w", method, done)
	}
	s := status.Convert(err)
	sentinel := named(s)
	if sentinel == nil {
		sentinel = believed(method, s.Code())
	}
	switch {
	case sentinel == cloudprovider.ErrNotImplemented: //nolint:errorlint // it is the sentinel itself, taken from a table
		return sentinel
	case s.Code() == codes.DeadlineExceeded:
		return fmt.Errorf("external cloud provider: %s: %w: %w: %s", method, sentinel, context.DeadlineExceeded, s.Message())
	}
	return &remoteError{text: fmt.Sprintf("external cloud provider: %s: %s: %s", method, s.Code(), s.Message()), sentinel: sentinel}
}

// remoteError has the text of the other side, which already names the sentinel.
type remoteError struct {
	text     string
	sentinel error
}

func (e *remoteError) Error() string { return e.text }

func (e *remoteError) Unwrap() error { return e.sentinel }

// named is the sentinel error a status names; nil if none.
func named(s *status.Status) error {
	for _, detail := range s.Details() {
		info, ok := detail.(*errdetails.ErrorInfo)
		if !ok || info.GetDomain() != errorDomain {
			continue
		}
		for _, w := range wireErrors {
			if w.reason == info.GetReason() {
				return w.err
			}
		}
	}
	return nil
}

// believed is the meaning of a code without details of another server. ResourceExhausted is not
// among them: gRPC answers it for messages that are too large.
func believed(method string, code codes.Code) error {
	switch {
	case code == codes.Unimplemented:
		return cloudprovider.ErrNotImplemented
	case code == codes.NotFound:
		return cloudprovider.ErrNotFound
	case code == codes.InvalidArgument && (method == "IncreaseSize" || method == "DecreaseTargetSize"):
		return cloudprovider.ErrInvalidDelta
	}
	return cloudprovider.ErrUnavailable
}
