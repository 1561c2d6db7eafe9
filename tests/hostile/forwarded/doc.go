// Package forwarded attacks the listeners of tunnels by port-forwards, so that attackers and users
// all have the address 127.0.0.1, and measures how users fare. It attacks the IO context server too,
// by pods of units.
//
//	forwarded.go  500 attackers on ten port-forwards beside 20 users with one each
//	forwards.go   port-forwards of attackers, which are established again and again
//	silent.go     500 new silent connections a second, beside users 100 ms away
//	opaque.go     junk tokens beside the opaque token of a webhook authenticator
//	unread.go     users with unread channels of SSH
//	users.go      the users: how each connects, until its first answer
//	bodies.go     slow bodies of pods of units, beside other units
//	units.go      the units: how their pods are started and removed
//
// What the port-forwarder itself costs is left out by comparison: users are measured during the
// attack on the listener, and during the same attack on an idle port of another pod of the node.
package forwarded
