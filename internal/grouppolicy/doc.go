// Package grouppolicy reads which sets of node groups a user has declared, and how they share their
// nodes: documents of kind NodeGroupPolicies become policies of package nodegroupset. It checks what
// one document says; whether the groups exist is for nodegroupset.CheckPolicies. It knows no cloud
// and no cluster, and decides nothing.
package grouppolicy
