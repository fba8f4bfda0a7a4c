// Package zonemarks keeps the zones that users have shifted away: a document of kind ZonalShift, in a
// file or in a ConfigMap. It reads and writes it, and watches it for a server.
//
// It does not know what follows from a shift; package zonalshift does.
package zonemarks
