// Package labelpacks holds the label packs of the product as data: the label
// keys that never make two node groups different. It knows nothing of their
// meaning; package nodegroupset reads and applies them.
package labelpacks

import _ "embed"

//go:embed labelpacks.yaml
var data string

// YAML returns the label packs as they are shipped.
func YAML() string { return data }
