// Package specs holds what the compiler of published specifications makes against a real API
// server: it takes every object, or a line said before why it would not.
package specs
