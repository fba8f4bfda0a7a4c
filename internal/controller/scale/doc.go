// Package scale reads and writes the Scale subresource of objects of any kind, and watches such
// objects for changes.
//
// A Client finds the resource of a Reference by discovery, so that a Deployment and a custom
// resource are the same to its caller. It reads from the API server each time, because sizes must
// not be decided from outdated ones. Every failure is an *Error whose Reason says what kind of
// failure it is.
//
// A Watcher holds a metadata watch per resource, started when it is first needed. If the API server
// refuses the watch, the caller must poll.
//
// The package knows no controller, and no kind except the three that need no apiVersion. It decides
// nothing.
package scale
