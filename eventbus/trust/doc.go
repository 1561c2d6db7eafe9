// Package trust authenticates the operator's programs to each other: TLS 1.3 with certificates
// of the one authority that the controller manager keeps and rotates (eventbus/trust/authority).
//
//   - Roots are the authorities that a client trusts: the old one and the new one, while one
//     follows the other. They can change while connections are open, and apply to new ones.
//   - A Folder is a certificate with its key, and Roots, in files that the kubelet replaces. It
//     is re-read regularly; an invalid file is logged, and the previous content stays.
//   - ServerCredentials distinguish TLS from plain gRPC by the first byte of a connection, so
//     that one port serves both.
//   - Dial is how they reach each other over gRPC.
//
// A client that has Roots never connects without TLS. Errors about certificates name the file
// or the peer, and the remedy.
package trust
