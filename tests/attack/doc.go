// Package attack holds a sidecar's memory as a hostile caller would, or a caller
// that is merely stuck: clients ask for more than they read, or send more than the
// application reads, or never come to the end of what they say.
//
// Flood starts the clients; Serve is the application that suffers them; Beside sends
// honest requests meanwhile, and Watch looks at what the sidecar's processes hold.
package attack
