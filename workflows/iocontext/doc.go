// Package iocontext is what a unit's pod and the IO context server say to each other, and where
// values are kept.
package iocontext
