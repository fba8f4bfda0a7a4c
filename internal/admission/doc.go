// Package admission says what an API server would refuse of nodes and pods, as far as scheduling looks at them: names,
// resource names and amounts, labels, taints, tolerations, selectors and spread constraints.
//
// It checks what people write and what is read from dumps alike, so that a misspelt resource or an unknown operator is told
// and not passed over. It refuses nothing that a real API server takes. It reads no files and changes no object; where an
// object comes from is known to its callers, who hand in the path.
package admission
