// Package plan answers planning documents: what goes where, from a document alone. It reads no cluster and no cloud and
// writes nothing.
//
// It is the joint between documents and engines: it checks whether the values of a document fit together, hands them to the
// engine that decides, and puts the decision in the document's words. It knows neither files nor formats, and decides nothing
// itself.
package plan
