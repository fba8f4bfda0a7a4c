// Package admission validates nodes and pods as an API server does, as far as scheduling uses them:
// names, resource names and amounts, labels, taints, tolerations, selectors, spread constraints and disruption budgets.
//
// It checks handwritten objects as well as dumps, so that a misspelt resource or an unknown
// operator is reported and not ignored. It refuses nothing that a real API server accepts. It reads
// no files and changes no object; the caller knows where an object comes from and passes its path.
package admission
