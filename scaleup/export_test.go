package scaleup

// AsEstimated returns options of rounds that do not simulate the scheduler.
func AsEstimated(o Options) Options {
	o.asEstimated = true
	return o
}

// WithoutTime returns options of rounds that simulate no more than a sound plan needs.
func WithoutTime(o Options) Options {
	o.maxWork = 1
	return o
}
