// Package cluster brings a node up, tells how it is, and takes it down.
//
// Up is the same whether nothing is there, something was killed, or all is
// well: it looks at each thing, keeps what is right and makes what is not. It
// refuses before it changes anything when the machine cannot carry a node. Up
// and Down of the same node wait for each other.
package cluster
