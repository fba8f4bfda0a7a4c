// Package serving opens gRPC servers and connections the way Cluster Autoscaler expects them: the
// certificate files of its flags, messages of 128 MiB, the health service, and a graceful shutdown.
// It also opens an HTTP server for probes and metrics, with the same rules.
//
// It knows no protocol: services are registered on the server it opens. It does not log; Problem
// returns the problem of a certificate.
//
// # Bounds
//
// Malicious or broken clients use bounded memory and do not block others. A connection has 10 s for
// its handshake, a request 30 s to arrive, and a peer that does not respond is dropped after 80 s.
// At most 256 connections may be in their handshake; the next one replaces the oldest. At most 1024
// may be established, with 100 calls each. A request may have 64 KiB of headers and
// Options.MaxRequest of message: set it on a listener whose requests are small.
//
// # Certificates
//
// Files are those of Cluster Autoscaler's flags: a certificate, its key, and a CA certificate to
// check the other side with. They are read again at the first handshake ten seconds or more after
// the last reading, so a renewed certificate is in use without a restart. Files that are not
// usable, such as a certificate with an old key, are ignored: the pair in use stays in use, and
// Problem returns the error.
//
// An HTTP server may do without files: HTTPOptions.SelfSigned.
//
// For the external cloud provider Cluster Autoscaler presents a client certificate; for the
// expander it does not, and requires TLS. So a listener for the expander must not have a CA
// certificate.
package serving
