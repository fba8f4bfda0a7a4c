// Package webhooks keeps what admission webhooks need besides their handlers: a certificate that the
// API server trusts, and configurations that send it the right requests. Every replica of a program
// runs it; they agree by optimistic updates of one Secret.
//
// It knows no handler: a Webhook says which requests the API server sends to which path. It opens no
// port: internal/serving does, with Keeper.Certificate.
//
// # Certificates
//
// An authority signs one serving certificate, and its key is forgotten. Both are replaced together when
// a third of their lifetime is left, in four steps, each one a state of the Secret:
//
//  1. The next pair is stored beside the current one, which all replicas continue to serve.
//  2. The authorities of both are written into all configurations.
//  3. After both have been there for a while, for which all API servers have noticed, the next pair
//     becomes the current one. Replicas that read the Secret serve it.
//  4. The authority that was replaced is trusted for another hour (less if certificates are short-lived).
//
// So the API server always trusts what any replica serves. If the Secret is deleted, the replicas
// store again what they have in memory, and begin a rotation. Only if nothing valid is left, in memory
// or in the Secret, is a new pair served at once, and authorities that are in the configurations stay
// there for the hour, because other replicas may serve what they have signed. A pass reads the configurations before the Secret and
// writes them with the version that was read, so a replica that was frozen between the two never
// replaces a newer list of authorities by an older one.
//
// The lengths of waits are measured by the clock of the replica that waits. Certificates are valid from
// a day before they were made on, so clocks may differ by that.
//
// cert-controller of Open Policy Agent, which does the same job, writes the new authority over the old
// one while replicas serve the old certificate, so requests fail during a rotation.
//
// # Configurations
//
// The installer makes the configurations, and decides on the failure policy, timeouts and further
// conditions. The Keeper owns three fields of each of their webhooks: the authorities, the rules, and the
// selector of namespaces. A configuration without rules matches nothing, so that it does no harm
// before this program runs, and none of the three fields is in a manifest that would reset it. What
// others change of them is restored at once. The selector lists the namespaces by name: that needs no right to
// change namespaces, and no user can set it.
//
// If a configuration is missing, or may not be read or written, the rest goes on, and Ready, the log and the
// metrics say so.
package webhooks
