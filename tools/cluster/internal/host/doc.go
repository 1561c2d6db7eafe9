// Package host finds out whether this machine can carry a node, before anything
// on it is changed, and installs the Debian packages that a node needs.
//
// Look gathers facts, Judge (pure) turns them into faults, each one line with
// its mend, and Install runs apt-get for what is missing.
package host
