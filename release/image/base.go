package image

import (
	"bytes"
	"encoding/pem"
	"fmt"

	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// baseFiles are the files of the image beside the program.
func baseFiles() []file {
	return []file{
		{name: "etc/group", mode: 0o644, content: fmt.Appendf(nil, "root:x:0:\nnonroot:x:%d:\n", User)},
		{name: "etc/passwd", mode: 0o644, content: fmt.Appendf(nil,
			"root:x:0:0:root:/:/sbin/nologin\nnonroot:x:%d:%d:nonroot:/:/sbin/nologin\n", User, User)},
		{name: "etc/ssl/certs/ca-certificates.crt", mode: 0o644, content: authorities()},
	}
}

// authorities returns the certificate authorities of Mozilla's list. They come as a Go module: go.sum pins them, so that every
// machine has the same, and updates arrive as those of other modules do. An authority that is trusted only for
// certificates up to a date is left out, since the file has no place for such a condition.
func authorities() []byte {
	var buffer bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint != nil {
			continue
		}
		buffer.Write(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}))
	}
	return buffer.Bytes()
}
