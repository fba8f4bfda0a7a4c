package scaleup

// AsEstimated returns options of rounds that rehearse nothing.
func AsEstimated(o Options) Options {
	o.asEstimated = true
	return o
}
