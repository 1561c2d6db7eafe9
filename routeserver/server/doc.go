// Package server is the route server as a value: it follows the log into a view
// and a history, and serves both over gRPC and REST, and the view to whatever
// else is given to it, with metrics beside. The program in
// routeserver/cmd/routeserver makes one and runs it; tests do the same in their
// own process.
//
// New opens the listeners, so an address that is taken is known at once, and
// connections made from then on are answered. Run serves until its context ends
// or a part fails. Losing the log is no failure: the last table is served until
// the log is back.
package server
