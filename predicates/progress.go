package predicates

// Step is how far a longer piece of work has come.
type Step struct {
	// Doing says what is done, such as "matching pods with node groups".
	Doing string
	// Done of Total are done, counted in Of, such as "pods"; a Total of 0 is not
	// known.
	Done, Total int
	Of          string
}

// report says how far the work has come, where anybody wants to know.
func (c *Checker) report(s Step) {
	if c.progress != nil {
		c.progress(s)
	}
}
