// Package serving opens gRPC servers and connections the way Cluster Autoscaler
// expects them: the certificate files of its flags, messages of 128 MiB, the
// health service, an end that lets calls finish. Beside them stands an HTTP server
// for probes and metrics, under the same rules.
//
// It knows no protocol: services are registered on the server it opens. It keeps
// no log; what is wrong with a certificate is there to be asked for.
//
// # Bounds
//
// Clients that mean no good, or are broken, cost bounded memory and keep nobody
// else out. A connection has 10 s to get through its handshake, a request 30 s to
// arrive, and a peer that does not answer is dropped after 80 s. At most 256
// connections may be in their handshake; the oldest gives way to the next. At most
// 1024 may be beyond it, with 100 calls each. A request may have 64 KiB of headers
// and Options.MaxRequest of message: set it on a listener whose requests are small.
//
// # Certificates
//
// Files are those of Cluster Autoscaler's flags: a certificate, its key, and a
// CA certificate to check the other side with. They are read again at the first
// handshake ten seconds or more after the last reading, so a renewed certificate
// is in use without a restart. Files that are not usable, such as half of a
// renewed pair, change nothing: the pair in use stays in use and Problem tells.
//
// An HTTP server may do without files: HTTPOptions.SelfSigned.
//
// For the external cloud provider Cluster Autoscaler presents a client
// certificate; for the expander it does not, and insists on TLS. So a listener
// for the expander must not have a CA certificate.
package serving
