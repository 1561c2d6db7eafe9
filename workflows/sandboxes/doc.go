// Package sandboxes has the operations on sandboxes and route groups: what a user asks of the operator,
// without flags and printing.
package sandboxes
