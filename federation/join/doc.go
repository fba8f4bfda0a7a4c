// Package join makes a cluster a member and takes that back: what the controllers need in the
// member, and what they need to know of it in the host.
//
// It uses the rights of the person who calls it, in both clusters. What it makes for the controllers
// has the rights of members.Rules and no others, and it checks that these suffice before the host
// learns of the member.
//
// The package knows no flags, and keeps no connection.
package join
