package admission

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// largestReview holds two objects of the largest size that an API server stores, and their request.
	largestReview = 7 << 20
	// margin is what is left of the time of a call to answer that it has failed.
	margin = 250 * time.Millisecond
)

// refusal is an error that answers a request: no.
type refusal struct{ status metav1.Status }

func (r *refusal) Error() string { return r.status.Message }

func refuse(code int32, reason metav1.StatusReason, format string, args ...any) error {
	return &refusal{metav1.Status{Status: metav1.StatusFailure, Code: code, Reason: reason, Message: fmt.Sprintf(format, args...)}}
}

// answerer answers a request with a JSON patch, which may be nil, or with an error, which is a refusal
// or a failure.
type answerer func(context.Context, *admissionv1.AdmissionRequest) ([]byte, error)

// handler serves a webhook. A failure is answered with status 500: unlike a refusal it is subject to
// the failure policy, and its text is shown to the user as well.
func (s *Server) handler(path string, answer answerer) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		begin := s.clock.Now()
		review, err := readReview(w, r)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		ctx, cancel := withinTimeout(r)
		defer cancel()
		patch, err := answer(ctx, review.Request)
		s.o.Metrics.answered(path, s.clock.Since(begin), err)
		var no *refusal
		response := &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: err == nil}
		log := s.o.Log.WithValues("operation", review.Request.Operation, "namespace", review.Request.Namespace, "name", review.Request.Name)
		switch {
		case errors.As(err, &no):
			log.V(1).Info("Refused", "reason", no.status.Reason, "message", no.status.Message)
			response.Result = &no.status
		case err != nil:
			log.Error(err, "Cannot answer a webhook", "path", path)
			http.Error(w, "evenkeel: "+err.Error(), http.StatusInternalServerError)
			return
		case len(patch) > 0:
			kind := admissionv1.PatchTypeJSONPatch
			response.Patch, response.PatchType = patch, &kind
		}
		review.Request, review.Response = nil, response
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(review) // the API server has gone
	})
}

func readReview(w http.ResponseWriter, r *http.Request) (*admissionv1.AdmissionReview, error) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, largestReview))
	if err != nil {
		return nil, fmt.Errorf("reading the request: %w", err)
	}
	review := &admissionv1.AdmissionReview{}
	if err := json.Unmarshal(body, review); err != nil {
		return nil, fmt.Errorf("the request is not an AdmissionReview: %w", err)
	}
	if review.APIVersion != admissionv1.SchemeGroupVersion.String() || review.Kind != "AdmissionReview" || review.Request == nil {
		return nil, fmt.Errorf("the request is a %s of %q, not an AdmissionReview of %s with a request", review.Kind, review.APIVersion,
			admissionv1.SchemeGroupVersion)
	}
	return review, nil
}

// withinTimeout is the context of a call, which ends before the API server, which says how long it
// waits, gives up.
func withinTimeout(r *http.Request) (context.Context, context.CancelFunc) {
	patience, err := time.ParseDuration(r.URL.Query().Get("timeout"))
	if err != nil || patience <= 0 {
		return context.WithCancel(r.Context())
	}
	return context.WithTimeout(r.Context(), max(patience-margin, patience/2))
}

func dryRun(r *admissionv1.AdmissionRequest) bool { return r.DryRun != nil && *r.DryRun }
