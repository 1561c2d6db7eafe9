package main

import (
	"os"

	"google.golang.org/grpc/credentials"

	"switchyard.dev/eventbus/trust"
	"switchyard.dev/tests/selfsigned"
)

// certify makes credentials for the server, and the bundle by which clients know it.
func certify() (credentials.TransportCredentials, []byte, error) {
	pair, err := selfsigned.New(serverName)
	if err != nil {
		return nil, nil, err
	}
	folder, err := opened(pair)
	if err != nil {
		return nil, nil, err
	}
	return trust.ServerCredentials(folder.Server(), true), pair.Cert, nil
}

// opened opens a directory with the files of a certificate like a route server. The files are
// removed afterwards.
func opened(pair selfsigned.Pair) (*trust.Folder, error) {
	dir, err := os.MkdirTemp("", "bench-xds-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if err := pair.Write(dir); err != nil {
		return nil, err
	}
	return trust.Open(trust.Config{Dir: dir, Name: serverName})
}

// serverName is what clients call the server.
const serverName = "routeserver.signadot.svc"

// trusting are a client's credentials: those of sidecars, of this release where there is a
// bundle, and of an earlier one.
func trusting(bundle []byte) (credentials.TransportCredentials, error) {
	if bundle == nil {
		return trust.ClientCredentials(nil, ""), nil
	}
	roots := trust.NewRoots("the server")
	return trust.ClientCredentials(roots, serverName), roots.Set(bundle)
}
