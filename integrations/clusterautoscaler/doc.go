// Package clusterautoscaler links evenkeel into a custom build of Cluster Autoscaler (CA).
//
// Link makes the autoscaler that some options are for balance similar node groups with evenkeel, up
// and down, whatever its cloud provider: sets are found by an index that is kept between loops,
// splits honour quotas over several groups, and nodes are taken from the largest group of a set
// first. With --balance-similar-node-groups off nothing changes.
//
// The package translates: CA's types into values for package internal/linked of the main module,
// and decisions back into what CA's processors answer. It decides nothing itself, links no
// scheduler but CA's, and must not know any cloud.
package clusterautoscaler
