// Package v1alpha1 holds the documents of evenkeel: the Go form of what people write in YAML or JSON with
// apiVersion evenkeel.dev/v1alpha1.
//
// It is a contract. Field names, option values and reasons here are the words of the documents; fields may be added but
// never renamed. The package knows no engine: it neither reads, nor checks, nor answers a document, and it imports
// nothing of this module.
//
// Optional numbers are pointers, so that a document can be printed back without defaults nobody wrote.
//
// Most kinds are planning documents, which no cluster knows. AddToScheme has the others, which are custom resources; what
// makes an object of them valid is said by the markers on their types, and checked by the API server.
//
// +groupName=evenkeel.dev
package v1alpha1
