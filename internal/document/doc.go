// Package document turns text into typed values: it reads documents strictly, and what a cluster
// printed leniently.
//
// Strictly, with [Read] and [ReadFiles]: documents written by users, as YAML or JSON, several per
// file. An unknown field, a wrong type, a number out of range, or a repeated field is refused with
// the field's path; so is a text whose aliases would expand too much. The package does not know
// what a value means, or whether values are consistent.
//
// Leniently, with [Objects] and [ReadSnapshot]: lists as kubectl prints them and Cluster
// Autoscaler's debugging snapshot. They are read item by item, so that a large list is never in
// memory as text, and unknown fields are ignored, because a newer cluster may have written them.
package document
