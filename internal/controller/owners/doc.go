// Package owners finds the controllers of an object: its own, the controller of that, and so on, such
// as the ReplicaSet and the Deployment of a pod. It reads the metadata of each from the API server
// once, and remembers them for a while.
//
// The package decides nothing, and knows no kind.
package owners
