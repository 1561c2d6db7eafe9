// Package adapter keeps the routes of sandboxes in the VirtualServices of Istio.
//
//	Settings  whether there is an adapter, and what it adds   settings.go
//	Report    what it knows of a Service and a routing key    report.go
package adapter
