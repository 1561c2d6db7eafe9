package door

import (
	"context"
	"os"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
)

// TokenFile is where the chart mounts the token of the operator's programs, made for
// Audience.
const TokenFile = "/var/run/secrets/routeserver/token"

// Show has a client show the token in a file with each call. The file is read each time,
// since the kubelet replaces it; while it cannot be read nothing is shown, and the
// client is served as a stranger. Without a file name nothing is ever shown.
func Show(file string) grpc.DialOption {
	if file == "" {
		return grpc.EmptyDialOption{}
	}
	return grpc.WithPerRPCCredentials(shown(file))
}

type shown string

var _ credentials.PerRPCCredentials = shown("")

// GetRequestMetadata implements credentials.PerRPCCredentials.
func (file shown) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	token, err := os.ReadFile(string(file))
	if err != nil || len(token) == 0 {
		return nil, nil //nolint:nilerr // a stranger is served too
	}
	return map[string]string{"authorization": "Bearer " + strings.TrimSpace(string(token))}, nil
}

// RequireTransportSecurity implements credentials.PerRPCCredentials.
func (shown) RequireTransportSecurity() bool { return false }
