// Package labelpacks holds the label packs of the product as data: the label keys that never make
// two node groups different. Package nodegroupset reads and applies them.
package labelpacks

import _ "embed"

//go:embed labelpacks.yaml
var data string

// YAML returns the label packs of this release.
func YAML() string { return data }
