// Package v1alpha1 holds the documents of evenkeel: the Go form of what people write in YAML or
// JSON with apiVersion evenkeel.dev/v1alpha1.
//
// It is a contract. Field names, option values and reasons are those of the documents; fields may
// be added but never renamed. The package does not read, validate or answer documents, and it
// imports nothing of this module.
//
// Optional numbers are pointers, so that a document can be printed without defaults that its author
// did not write.
//
// Most kinds are planning documents, which a cluster does not store. The others are custom
// resources, which AddToScheme registers; the markers on their types are the validation rules that
// the API server applies.
//
// +groupName=evenkeel.dev
package v1alpha1
