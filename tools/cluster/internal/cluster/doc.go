// Package cluster creates a node, reports its status, and deletes it.
//
// Up is idempotent, also after a part was killed: it checks each part, keeps those that are right
// and creates the others. It fails before any change when the machine cannot run a node. Up and
// Down of the same node wait for each other.
package cluster
