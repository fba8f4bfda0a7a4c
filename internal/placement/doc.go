// Package placement explains where the replicas of FederatedReplicaSets run and why, from files.
//
// It reads FederatedReplicaSets and MemberClusters as kubectl prints them, asks package federation
// for the decision that its status leads to, and puts the arithmetic and the answer in one value.
// It decides nothing itself, and knows neither clusters nor flags nor tables.
package placement
