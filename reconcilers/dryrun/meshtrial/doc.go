// Package meshtrial simulates the adapters of meshes for dry runs: they sync with the table of the
// facts of a dry run, and their writes stay in memory.
package meshtrial
