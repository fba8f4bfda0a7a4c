package scaleup

// AsEstimated returns options of rounds that rehearse nothing.
func AsEstimated(o Options) Options {
	o.asEstimated = true
	return o
}

// WithoutTime returns options of rounds that rehearse no more than a sound plan needs.
func WithoutTime(o Options) Options {
	o.rehearsing = 1
	return o
}
