package simulate

import (
	"io"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/evenkeel/evenkeel/internal/document"
	"github.com/evenkeel/evenkeel/predicates"
)

// readScheduler reads the configuration of the scheduler, if there is one.
func (l *loader) readScheduler() error {
	given, at := l.spec.Options.SchedulerConfig, specPath.Child("options", "schedulerConfig")
	if given == nil {
		return nil
	}
	config, problems := []byte(given.Object), len(l.problems)
	var shown any = field.OmitValueType{}
	if given.File != "" {
		shown = given.File
		err := l.reading(given.File, at, func(_ string, r io.Reader, _ bool) (err error) {
			config, err = document.Text(r, maxSchedulerConfig)
			return err
		})
		if err != nil || len(l.problems) > problems {
			return err
		}
	}
	if err := predicates.CheckConfiguration(config); err != nil {
		l.add(field.Invalid(at, shown, err.Error()))
	}
	l.setup.SchedulerConfig = config
	return nil
}

// maxSchedulerConfig is the greatest size of a configuration that is read, in bytes.
const maxSchedulerConfig = 1 << 20
