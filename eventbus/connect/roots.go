package connect

// The operator's images contain no certificates of authorities: "the system's" are those that
// Mozilla trusts, which this import provides.
import _ "golang.org/x/crypto/x509roots/fallback"
