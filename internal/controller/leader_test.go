package controller_test

import (
	"errors"
	"testing"

	"github.com/evenkeel/evenkeel/internal/controller"
)

// After a restore of the data of the API server the version of the Lease goes back, and the process ends, also if it has
// only written the Lease since it leads.
func TestRestoredDataEndTheProcess(t *testing.T) {
	for name, seen := range map[string]func(...string) error{"read": controller.SeenRead, "written": controller.SeenWritten} {
		t.Run(name, func(t *testing.T) {
			if err := seen("9", "10", "10", "200"); err != nil {
				t.Error(err)
			}
			if err := seen("9", "200", "10"); !errors.Is(err, controller.ErrRestored) {
				t.Error(err)
			}
		})
	}
}
