// Package host checks whether this machine can run a node, before any change to it, and installs
// the Debian packages that a node needs.
//
// Look gathers facts, Judge (pure) turns them into faults, each one line with its remedy, and
// Install runs apt-get for missing packages.
package host
