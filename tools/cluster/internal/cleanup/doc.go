// Package cleanup removes everything that belongs to a node: processes, mounts, cgroups and files.
//
// It does not rely on the records of the node, since it must also work after a crash. A process
// belongs to the node when it is in the node's network namespace or below the node's cgroup; a
// mount, when it is below the node's directory. Observe records the state of the machine before the
// node is created, so that directories and kernel settings which the node's programs changed
// outside of its directory can be restored.
//
// The functions that parse text (cgroup files) are pure.
package cleanup
