// Package attack fills a sidecar's memory like a hostile caller, or one that is merely stuck:
// clients request more than they read, or send more than the application reads, or never complete a
// request.
//
// Flood starts the clients; Serve is the attacked application; Beside sends legitimate requests in
// the meantime, and Watch measures the memory of the sidecar's processes.
package attack
