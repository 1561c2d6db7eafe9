// Package routing holds the tests of our own API as its users have it: whole
// route servers on a log, asked over gRPC and HTTP.
package routing
