package trust

import (
	"crypto/x509"
	"fmt"
	"os"
)

// Pool returns the authorities in a file, in PEM; nil for those of the system if no file is named.
func Pool(file string) (*x509.CertPool, error) {
	if file == "" {
		return nil, nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("%s has no certificate in PEM", file)
	}
	return pool, nil
}
