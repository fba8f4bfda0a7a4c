// Package document turns text into typed values: it reads documents strictly, and what a cluster
// printed leniently.
//
// Strictly, with [Read] and [ReadFiles]: what people write, as YAML or JSON, several documents per
// file. An unknown field, a wrong type, a number out of range, a field given twice is refused with
// the field's path; a text that would grow beyond measure is refused as such. What a value means,
// and whether values fit together, is not known here.
//
// Leniently, with [Objects] and [ReadSnapshot]: lists as kubectl prints them and Cluster
// Autoscaler's debugging snapshot. They are read item by item, so that a large list is never in
// memory as text, and unknown fields are ignored, because a newer cluster may have written them.
package document
