// Package outages measures how the link between an agent and a control plane recovers, with the real programs agent
// and linkserver and a real API server:
//
//   - Cuts: the network between both is interrupted by resets, by a black hole, by one in one direction, and by a slow
//     phase. The figure is the time from the end of the interruption to the answer of the first request that was
//     sent after it.
//   - Herd: 1,000 agents lose their link server, which starts again. They are the product's link code in one process.
//     Then tokens are revoked.
//   - Proxy: an agent connects through an HTTP CONNECT proxy, at a round trip of 300 ms.
//   - Replicas: three link servers share a registry. Requests go through any of them, while that with the agent's
//     session is killed.
//
// Everything runs in a network namespace of its own, where agents are. Each control plane is in another one,
// which agents reach over a line (line.go) that this package interrupts, and users over another device.
//
// Users call Isolate first in main; it needs root. The command is in cmd.
package outages
