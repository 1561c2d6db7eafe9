// Package services knows the Services of the cluster, for GetClusterServices: it
// keeps a copy of them by a list and a watch, and says them in the words of the
// published routes API.
//
// Listed are Services with a cluster address. For a Service that was made for a
// fork it says what it stands for, from the annotations that the operator leaves
// on it. It needs leave to get, list and watch Services; without it List says so
// and everything else goes on.
package services
