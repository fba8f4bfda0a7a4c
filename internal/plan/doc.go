// Package plan computes the status of planning documents from the document alone. It reads no
// cluster and no cloud and writes nothing.
//
// It connects documents and engines: it checks that the values of a document are consistent, passes
// them to the engine that decides, and converts the decision to the fields of the document. It
// knows neither files nor formats, and decides nothing itself.
package plan
