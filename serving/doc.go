// Package serving opens gRPC servers and connections the way Cluster Autoscaler
// expects them: the certificate files of its flags, messages of 128 MiB, the
// health service, an end that lets calls finish.
//
// It knows no protocol: services are registered on the server it opens. It keeps
// no log; what is wrong with a certificate is there to be asked for.
//
// # Certificates
//
// Files are those of Cluster Autoscaler's flags: a certificate, its key, and a
// CA certificate to check the other side with. They are read again at the first
// handshake ten seconds or more after the last reading, so a renewed certificate
// is in use without a restart. Files that are not usable, such as half of a
// renewed pair, change nothing: the pair in use stays in use and Problem tells.
//
// For the external cloud provider Cluster Autoscaler presents a client
// certificate; for the expander it does not, and insists on TLS. So a listener
// for the expander must not have a CA certificate.
package serving
