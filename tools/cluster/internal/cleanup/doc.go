// Package cleanup takes everything of a node away: processes, mounts, cgroups
// and files.
//
// It does not trust what the node says about itself, since it must also work
// after a crash. A process belongs to the node when it is in the node's network
// namespace or below the node's cgroup; a mount, when it is below the node's
// directory. What was on the machine before the node came is written down once
// by Observe, so that folders and kernel settings which the node's programs
// changed outside of its directory can be put back.
//
// The functions that read text (cgroup files) are pure.
package cleanup
