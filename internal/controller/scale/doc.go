// Package scale reads and writes the Scale subresource of whatever has one, and tells when such an object changes.
//
// A Client finds the resource behind a Reference by discovery, so that a Deployment and a custom resource are the same
// to its caller. It asks the API server itself each time: a decision about sizes is not made on old ones. Every failure
// is an *Error whose Reason says what is to be done.
//
// A Watcher holds a watch of names and generations per resource, begun when it is first asked for. Where the API server
// refuses the watch it tells the caller to look by itself from time to time.
//
// The package knows no controller and no kind, but for the three that need no apiVersion. It decides nothing.
package scale
