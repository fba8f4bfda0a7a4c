// Package recording keeps the calls a gRPC server answers in a file, one JSON
// object a line:
//
//	{"method":"/package.Service/Method","request":{},"response":{},"t":1.5}
//	{"method":"/package.Service/Method","request":{},"error":{"code":"NotFound","message":"no such group"},"t":2.25}
//
// Messages are in the JSON of protocol buffers; t is when the call came in, in
// seconds since the recording began. Lines stand in the order in which calls ended.
//
// Recording never makes a call wait or fail: what cannot be written is left out and
// reported once. The package knows no protocol but that of the messages.
package recording
