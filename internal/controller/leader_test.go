package controller_test

import (
	"errors"
	"testing"

	"github.com/evenkeel/evenkeel/internal/controller"
)

// After a restore of the data of the API server the version of the Lease goes back, and the process ends.
func TestRestoredDataEndTheProcess(t *testing.T) {
	if err := controller.Seen("9", "10", "10", "200"); err != nil {
		t.Error(err)
	}
	if err := controller.Seen("9", "200", "10"); !errors.Is(err, controller.ErrRestored) {
		t.Error(err)
	}
}
