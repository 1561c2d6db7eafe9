// Package specs tests the output of the compiler of published specifications against a real API
// server: the server must accept every object, or the compiler must have printed the reason for a
// rejection.
package specs
