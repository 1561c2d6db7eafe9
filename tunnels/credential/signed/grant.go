package signed

import "time"

// GrantPath is the path, at the URL of a control plane's proxy, that answers POST with a Grant as
// JSON. The request has the headers of a CONNECT to that proxy: the API key and the name of the
// cluster.
const GrantPath = "/switchyard/v1/connect"

// Grant is what a user needs to connect to tunnel proxies without a kubeconfig.
type Grant struct {
	// Credential authenticates the user until it Expires.
	Credential string    `json:"credential"`
	Expires    time.Time `json:"expires"`
	// Authority has the certificates that sign those of the operator, as PEM.
	Authority string `json:"authority"`
}
