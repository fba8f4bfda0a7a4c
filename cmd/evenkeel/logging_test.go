package main

import (
	"strings"
	"testing"
)

// However verbose the log is, it does not have what the client of Kubernetes sends and receives.
func TestNoVerbosityLogsBodies(t *testing.T) {
	for _, format := range []string{"text", "json"} {
		var out strings.Builder
		log, err := (&logFlags{format: format, verbosity: 10}).logger(&out)
		if err != nil {
			t.Fatal(err)
		}
		log.V(8).Info("Response Body", "body", "s3cret") // the level of package rest of client-go
		log.V(mostVerbose).Info("GET")
		if text := out.String(); strings.Contains(text, "s3cret") || !strings.Contains(text, "GET") {
			t.Errorf("%s: %s", format, text)
		}
	}
}
