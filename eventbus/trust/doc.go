// Package trust is who the operator's programs take each other for: TLS 1.3 with
// certificates of the one authority that the controller manager keeps and rotates
// (eventbus/trust/authority).
//
//   - Roots are the authorities that a client trusts: the old one and the new one, while
//     one follows the other. What they are changes under connections that are open, and
//     counts for those that come.
//   - A Folder is a certificate with its key, and Roots, in files that the kubelet
//     replaces. It is read again and again; what is not sound is said, and what was there
//     before stays.
//   - ServerCredentials tell TLS from plain gRPC by the first byte of a connection, so
//     that one port serves both.
//   - Dial is how they reach each other over gRPC.
//
// A client that has Roots never speaks plain. What is wrong with a certificate is said in
// words that name the file or the peer, and what to do.
package trust
