// Package devmesh shows that DevMesh disappears, with real parts and over time:
//
//   - Changes: routes change ten times a second under load. From the receipt of a
//     change on (the routing API's Wait) no request may follow the old route, and
//     no other request may fail or be misrouted at any time.
//   - Outage: all programs of the control plane are killed and stay away, half of
//     the sidecars are restarted during that time, and no request fails.
//   - Equality: after random changes, with restarts in between, the routes of real
//     Envoys (package configdump reads them from their reports) equal the table
//     at the version that each has acknowledged.
//
// Everything runs in a network namespace of its own: the control plane with its real
// parts (package control), and pods, each in a namespace of
// its own, with an application, the redirection, and the sidecar's program with
// its Envoy. The clients keep their connections, over HTTP/1.1 and HTTP/2, and
// new ones go to pods that are ready, as with a Service.
//
// # What failed means
//
// Every request has a body, so that no client sends it again by itself, and each that has no
// right answer counts. There is one exception. A sidecar that is killed, or with an Envoy that
// is, cuts the requests on the wire at that moment, and accepts none until it is back: those
// requests are counted apart (Cut) and sent again on a new connection, as their clients would.
// One that fails then is lost. A sidecar that receives SIGTERM, as it does with its pod, must
// lose none, and its requests are counted like all others.
//
// Users call control.Isolate first in main or TestMain; it needs root. The command endure
// runs all three in full.
package devmesh
