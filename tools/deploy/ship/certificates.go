package ship

import (
	"bytes"
	"encoding/pem"

	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// certificates returns the authorities of Mozilla's program in PEM. They come from a module, whose version is pinned. It leaves
// out authorities that Mozilla trusts only for certificates up to a date, because PEM cannot express this.
func certificates() []byte {
	var out bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint == nil {
			_ = pem.Encode(&out, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}) // a buffer accepts every write
		}
	}
	return out.Bytes()
}
