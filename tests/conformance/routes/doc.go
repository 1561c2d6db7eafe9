// Package routes holds the route server against the published routes API as its
// clients know it: over real connections, with a client that follows the
// published one's rules (watched.go) and fails the test where that one would
// crash, hang or be misled.
package routes
