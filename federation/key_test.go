package federation

import (
	"bytes"
	"crypto/sha256"
	"fmt"
)

// inNameOrder is the key of an object whose ties are broken in the order a, b, c, d.
var inNameOrder = func() string {
	for i := 0; ; i++ {
		key := fmt.Sprintf("shop/web-%d", i)
		var last []byte
		ordered := true
		for _, name := range []string{"a", "b", "c", "d"} {
			digest := sha256.Sum256([]byte(key + "\x00" + name))
			ordered = ordered && (last == nil || bytes.Compare(digest[:], last) < 0)
			last = digest[:]
		}
		if ordered {
			return key
		}
	}
}()
